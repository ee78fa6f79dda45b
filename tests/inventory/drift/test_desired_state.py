"""What is desired of an ECS service is what last ended well there and was not taken back."""

from deployments.execution.operations import abort_execution, retry_execution, roll_back_execution
from deployments.models import Execution
from inventory.drift.comparison import LOCKED_REASON
from inventory.drift.documents.field_rules import SERVICE_DEFINITION, TASK_DEFINITION
from inventory.drift.drift_scan import SCAN_INTERVAL
from inventory.models.drift import Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text, write
from tests.deployments.execution.conftest import Strategies, strategies
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import compared, drifts, looked_at, state, synced
from tests.inventory.drift.test_drift import register, update
from tests.steps.kinds.test_scale import scale_text
from web.clock import get_database_time

__all__ = ["strategies", "write"]

STATES = DriftComparison.State


def desired() -> Execution:
    found = DriftComparison.objects.get(ecs_service__name="myapp").execution
    assert found is not None
    return found


def told() -> str:
    return str(Drift.objects.filter(resolved_at=None)[0].attribution)


def test_an_older_run_that_is_tried_again_is_what_counts(drive: Drive) -> None:
    drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServices")
    older = drive.run("1.28")
    drive.sandbox.clear_faults()
    newer = drive.run("1.29")
    assert (drifts(), desired()) == ([], newer)
    retry_execution(actor=drive.deployer, execution=older)
    drive.until_over(older)
    assert older.outcome == "COMPLETED", drive.log(older)[-5:]
    assert (drifts(), desired()) == ([], older)


def test_of_two_deployments_in_one_run_the_later_counts(write: Write) -> None:
    again = DEPLOY.replace("identifier: deploy", "identifier: again").replace("name: deploy", "name: again")
    drive = write(pipeline_text(stage_text(DEPLOY + again)))
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED", execution.failure
    assert (drifts(), desired()) == ([], execution)
    assert drive.service()["taskDefinition"].endswith(":2")


def test_a_run_that_failed_before_it_changed_anything_changes_nothing_here(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="RegisterTaskDefinition")
    assert drive.run("1.28").status == "FAILED"
    drive.sandbox.clear_faults()
    assert (drifts(), desired()) == ([], first)


def test_after_a_rollback_it_is_what_was_rolled_back_to(drive: Drive) -> None:
    first = drive.run("1.27")
    assert drive.run("crash").outcome == "ROLLED_BACK"
    assert (drifts(), desired()) == ([], first)
    second = drive.run("1.28")
    assert (drifts(), desired()) == ([], second)
    roll_back_execution(actor=drive.deployer, execution=second)
    drive.until_over(second)
    assert (second.status, second.outcome) == ("ROLLED_BACK", "ROLLED_BACK")
    assert (drifts(), desired()) == ([], first)


def test_what_an_aborted_run_left_is_drift_and_named_as_its_own(drive: Drive) -> None:
    first = drive.run("1.27")
    execution = drive.start("slow")
    drive.pass_time(6)
    assert drive.service()["taskDefinition"].endswith(":2")
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert drifts() == [f"{TASK_DEFINITION}:containerDefinitions[nginx].image"]
    assert desired() == first
    assert (
        f"of execution #{execution.number} of Rolling demo ended as ABORTED and was not rolled back" in told()
    )
    assert "not registered by Slipway" not in told()


def test_what_ended_well_counts_though_its_run_failed_later(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(DEPLOY))).run("1.27")
    later = "- step: {identifier: scale, type: EcsScale, spec: {service: nothing, instances: 2}}\n"
    text = pipeline_text(stage_text(DEPLOY + later)).replace(
        "        type: Deployment\n",
        "        type: Deployment\n        failureStrategies:\n"
        "        - onFailure: {errors: [AllErrors], action: {type: MarkAsFailure}}\n",
    )
    failed = write(text).run("1.28")
    assert (failed.status, drive.service()["taskDefinition"][-2:]) == ("FAILED", ":2")
    assert (drifts(), desired()) == ([], failed)


def test_a_count_that_a_step_gave_is_desired_until_it_is_taken_back(write: Write, drive: Drive) -> None:
    write(pipeline_text(stage_text(DEPLOY))).run("1.27")
    scaled = write(scale_text("service: myapp, instances: 3")).run()
    assert drive.service()["desiredCount"] == 3
    assert drifts() == []
    update(drive, desiredCount=2)
    assert drifts() == [f"{SERVICE_DEFINITION}:desiredCount"]
    assert [(one.desired, one.actual) for one in Drift.objects.filter(resolved_at=None)] == [(3, 2)]
    update(drive, desiredCount=3)
    roll_back_execution(actor=drive.deployer, execution=scaled)
    drive.until_over(scaled)
    assert drive.service()["desiredCount"] == 1
    assert drifts() == []


def test_a_circuit_breaker_that_went_back_to_what_nobody_deployed_here_is_named(drive: Drive) -> None:
    drive.run("1.27")
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    update(drive, taskDefinition=register(drive, stopTimeout=20), deploymentConfiguration=breaker)
    drive.pass_time(120)
    crash = register(drive, image="docker.io/library/nginx:crash")
    update(drive, taskDefinition=crash)
    drive.pass_time(900, step=5)
    assert drive.service()["taskDefinition"] != crash
    assert f"{TASK_DEFINITION}:containerDefinitions[nginx].stopTimeout" in drifts()
    assert "circuit breaker rolled back" in told()


def test_a_deployment_that_aws_took_back_and_a_person_called_a_success_is_drift(
    drive: Drive, strategies: Strategies
) -> None:
    first = drive.run("1.27")
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    update(drive, deploymentConfiguration=breaker)
    strategies("- onFailure: {errors: [AllErrors], action: {type: MarkAsSuccess}}")
    second = drive.run("crash")
    assert second.status == "SUCCESS", second.failure
    drive.pass_time(600, step=5)
    found = drifts()
    assert desired() == second
    assert f"{TASK_DEFINITION}:containerDefinitions[nginx].image" in found
    assert "circuit breaker rolled back" in told()
    assert f"registered by execution #{first.number} of Rolling demo" in told()


def test_while_an_execution_may_change_it_nothing_is_judged_and_the_page_says_so(drive: Drive) -> None:
    drive.run("1.27")
    update(drive, enableExecuteCommand=True)
    assert len(drifts()) == 1
    execution = drive.start("slow")
    drive.pass_time(12)
    compared()
    comparison = DriftComparison.objects.get()
    assert (comparison.state, comparison.reason) == (STATES.DEPLOYING, LOCKED_REASON)
    drive.until_over(execution)


def test_what_sync_saw_before_an_execution_ended_is_not_judged(drive: Drive) -> None:
    drive.run("1.27")
    compared()
    execution = drive.start("slow")
    drive.pass_time(12)
    cluster = synced()
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK"
    assert EcsServiceRecord.objects.get().task_definition.endswith(":2"), "from the middle of it"
    one = looked_at(cluster)
    assert (state(), Drift.objects.count()) == (STATES.IN_STEP, 0)
    assert one.due_at < get_database_time() + SCAN_INTERVAL / 2
    assert drifts() == []
