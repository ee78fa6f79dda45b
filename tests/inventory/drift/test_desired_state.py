"""What is desired of an ECS service is what last ended well there and was not taken back."""

from deployments.execution.operations import abort_execution, retry_execution, roll_back_execution
from deployments.models import Execution, StepExecution
from inventory.drift.comparison import LOCKED_REASON
from inventory.drift.documents.field_rules import SERVICE_DEFINITION, TASK_DEFINITION
from inventory.drift.drift_scan import SCAN_INTERVAL
from inventory.models.drift import Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text, write
from tests.deployments.execution.conftest import Strategies, strategies
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import get_state, list_drifts, run_whole_scan, scan_after_sync, sync_cluster
from tests.inventory.drift.test_drift import register_revision, update_service
from tests.steps.kinds.test_scale import scale_text
from web.clock import get_database_time

__all__ = ["strategies", "write"]

STATES = DriftComparison.State


def get_desired_execution() -> Execution:
    execution = DriftComparison.objects.get(ecs_service__name="myapp").execution
    assert execution is not None
    return execution


def get_attribution() -> str:
    return str(Drift.objects.filter(resolved_at=None)[0].attribution)


def test_an_older_run_that_is_tried_again_is_what_counts(drive: Drive) -> None:
    drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServices")
    old_execution = drive.run("1.28")
    drive.sandbox.clear_faults()
    new_execution = drive.run("1.29")
    assert (list_drifts(), get_desired_execution()) == ([], new_execution)
    retry_execution(actor=drive.deployer, execution=old_execution)
    drive.until_over(old_execution)
    assert old_execution.outcome == "COMPLETED", drive.log(old_execution)[-5:]
    assert (list_drifts(), get_desired_execution()) == ([], old_execution)


def test_of_two_deployments_in_one_run_the_later_counts(write: Write) -> None:
    second_step = DEPLOY.replace("identifier: deploy", "identifier: again").replace(
        "name: deploy", "name: again"
    )
    drive = write(pipeline_text(stage_text(DEPLOY + second_step)))
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED", execution.failure
    assert (list_drifts(), get_desired_execution()) == ([], execution)
    later = StepExecution.objects.get(stage__execution=execution, identifier="again")
    assert [row["id"] for row in drive.service()["deployments"]] == [later.outputs["deploymentId"]]


def test_a_run_that_failed_before_it_changed_anything_changes_nothing_here(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="RegisterTaskDefinition")
    assert drive.run("1.28").status == "FAILED"
    drive.sandbox.clear_faults()
    assert (list_drifts(), get_desired_execution()) == ([], first)


def test_after_a_rollback_it_is_what_was_rolled_back_to(drive: Drive) -> None:
    first = drive.run("1.27")
    assert drive.run("crash").outcome == "ROLLED_BACK"
    assert (list_drifts(), get_desired_execution()) == ([], first)
    second = drive.run("1.28")
    assert (list_drifts(), get_desired_execution()) == ([], second)
    roll_back_execution(actor=drive.deployer, execution=second)
    drive.until_over(second)
    assert (second.status, second.outcome) == ("ROLLED_BACK", "ROLLED_BACK")
    assert (list_drifts(), get_desired_execution()) == ([], first)


def test_what_an_aborted_run_left_is_drift_and_named_as_its_own(drive: Drive) -> None:
    first = drive.run("1.27")
    execution = drive.start("slow")
    drive.pass_time(6)
    assert drive.service()["taskDefinition"].endswith(":2")
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert list_drifts() == [f"{TASK_DEFINITION}:containerDefinitions[nginx].image"]
    assert get_desired_execution() == first
    assert (
        f"of execution #{execution.number} of Rolling demo ended as ABORTED and was not rolled back"
        in get_attribution()
    )
    assert "not registered by Slipway" not in get_attribution()


def test_what_ended_well_counts_though_its_run_failed_later(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(DEPLOY))).run("1.27")
    scale_step = "- step: {identifier: scale, type: EcsScale, spec: {service: nothing, instances: 2}}\n"
    text = pipeline_text(stage_text(DEPLOY + scale_step)).replace(
        "        type: Deployment\n",
        "        type: Deployment\n        failureStrategies:\n"
        "        - onFailure: {errors: [AllErrors], action: {type: MarkAsFailure}}\n",
    )
    failed_execution = write(text).run("1.28")
    assert (failed_execution.status, drive.service()["taskDefinition"][-2:]) == ("FAILED", ":2")
    assert (list_drifts(), get_desired_execution()) == ([], failed_execution)


def test_a_count_that_a_step_gave_is_desired_until_it_is_taken_back(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(DEPLOY))).run("1.27")
    scale_execution = write(scale_text("service: myapp, instances: 3")).run()
    assert drive.service()["desiredCount"] == 3
    assert list_drifts() == []
    update_service(drive, desiredCount=2)
    assert list_drifts() == [f"{SERVICE_DEFINITION}:desiredCount"]
    assert [(row.desired, row.actual) for row in Drift.objects.filter(resolved_at=None)] == [(3, 2)]
    update_service(drive, desiredCount=3)
    roll_back_execution(actor=drive.deployer, execution=scale_execution)
    drive.until_over(scale_execution)
    assert drive.service()["desiredCount"] == 1
    assert list_drifts() == []


def test_a_circuit_breaker_that_went_back_to_what_nobody_deployed_here_is_named(drive: Drive) -> None:
    drive.run("1.27")
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    update_service(
        drive, taskDefinition=register_revision(drive, stopTimeout=20), deploymentConfiguration=breaker
    )
    drive.pass_time(120)
    crash = register_revision(drive, image="docker.io/library/nginx:crash")
    update_service(drive, taskDefinition=crash)
    drive.pass_time(900, step=5)
    assert drive.service()["taskDefinition"] != crash
    assert f"{TASK_DEFINITION}:containerDefinitions[nginx].stopTimeout" in list_drifts()
    assert "circuit breaker rolled back" in get_attribution()


def test_a_deployment_that_aws_took_back_and_a_person_called_a_success_is_drift(
    drive: Drive, strategies: Strategies
) -> None:
    first = drive.run("1.27")
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    update_service(drive, deploymentConfiguration=breaker)
    strategies("- onFailure: {errors: [AllErrors], action: {type: MarkAsSuccess}}")
    second = drive.run("crash")
    assert second.status == "SUCCESS", second.failure
    drive.pass_time(600, step=5)
    drift_paths = list_drifts()
    assert get_desired_execution() == second
    assert f"{TASK_DEFINITION}:containerDefinitions[nginx].image" in drift_paths
    assert "circuit breaker rolled back" in get_attribution()
    assert f"registered by execution #{first.number} of Rolling demo" in get_attribution()


def test_while_an_execution_may_change_it_nothing_is_judged_and_the_page_says_so(drive: Drive) -> None:
    drive.run("1.27")
    update_service(drive, enableExecuteCommand=True)
    assert len(list_drifts()) == 1
    execution = drive.start("slow")
    drive.pass_time(12)
    scan_after_sync()
    comparison = DriftComparison.objects.get()
    assert (comparison.state, comparison.reason) == (STATES.DEPLOYING, LOCKED_REASON)
    drive.until_over(execution)


def test_what_sync_saw_before_an_execution_ended_is_not_judged(drive: Drive) -> None:
    drive.run("1.27")
    scan_after_sync()
    execution = drive.start("slow")
    drive.pass_time(12)
    cluster = sync_cluster()
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK"
    assert EcsServiceRecord.objects.get().task_definition.endswith(":2"), "from the middle of it"
    scan = run_whole_scan(cluster)
    assert (get_state(), Drift.objects.count()) == (STATES.IN_STEP, 0)
    assert scan.due_at < get_database_time() + SCAN_INTERVAL / 2
    assert list_drifts() == []
