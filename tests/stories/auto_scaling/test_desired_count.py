"""The desired count never fights auto scaling, and R208 means what it says."""

import pytest

from connectors.models import FileNode
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution, RollbackCheck, StepExecution
from pipelines.models import Pipeline
from tests.fixtures.engine_driver import Drive
from tests.stories.auto_scaling.conftest import AutoScaling

pytestmark = pytest.mark.django_db(transaction=True)

SERVICE_FILE = "/ECS Tutorial/CreateServiceRequest.yaml"
RETRY = """
                  failureStrategies:
                    - onFailure:
                        errors: [AllErrors]
                        action: {type: Retry, spec: {retryCount: 1, retryIntervals: [60s],
                          onRetryFailure: {action: {type: StageRollback}}}}
""".lstrip("\n")


def _set_desired_count(count: int) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    assert "desiredCount: 1" in node.content
    node.content = node.content.replace("desiredCount: 1", f"desiredCount: {count}")
    node.save()


def _leave_count_out() -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    node.content = node.content.replace("desiredCount: 1\n", "")
    assert "desiredCount" not in node.content
    node.save()


def _as_running(pipeline: Pipeline) -> None:
    pipeline.yaml = pipeline.yaml.replace("spec: {}", "spec: {sameAsAlreadyRunningInstances: true}", 1)
    assert "sameAsAlready" in pipeline.yaml
    pipeline.save(update_fields=["yaml"])


def _roll_back(drive: Drive, execution: Execution) -> None:
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.pass_time(60, step=5)
    execution.refresh_from_db()
    drive.until_over(execution)


@pytest.mark.parametrize(("bounds", "before", "after"), [((1, 4), 3, 3), ((4, 6), 3, 4), ((1, 2), 3, 2)])
def test_with_a_scalable_target_the_count_is_left_alone_or_moved_into_its_bounds(
    drive: Drive, scaling: AutoScaling, bounds: tuple[int, int], before: int, after: int
) -> None:
    drive.run("1.27")
    scaling.register_target(1, 6)
    scaling.set_count(before)
    scaling.set_manifests(bounds=bounds)
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    assert drive.service()["desiredCount"] == after
    updates = [c for c in drive.calls(execution) if c.operation == "UpdateService"]
    assert updates[0].parsed_parameters.get("desiredCount") == (None if after == before else after)
    drive.pass_time(20, step=5)
    assert drive.service()["runningCount"] == after


def test_rolling_back_later_leaves_the_count_to_auto_scaling(drive: Drive, scaling: AutoScaling) -> None:
    drive.run("1.27")
    scaling.register_target(1, 6)
    execution = drive.run("1.28")
    scaling.set_count(5)
    _roll_back(drive, execution)
    assert execution.outcome == "ROLLED_BACK"
    assert (drive.service()["desiredCount"], drive.service()["runningCount"]) == (5, 5)
    broken = RollbackCheck.objects.filter(step__stage__execution=execution, passed=False)
    assert not broken.exists()


def test_without_auto_scaling_a_rollback_brings_back_the_count(drive: Drive) -> None:
    drive.run("1.27")
    _set_desired_count(3)
    execution = drive.run("1.28")
    assert drive.service()["runningCount"] == 3
    _roll_back(drive, execution)
    assert (drive.service()["desiredCount"], drive.service()["runningCount"]) == (1, 1)


def test_a_count_that_auto_scaling_of_the_same_deployment_moved_is_brought_back(
    drive: Drive, scaling: AutoScaling
) -> None:
    _leave_count_out()
    drive.run("1.27")
    scaling.set_manifests(bounds=(3, 5))
    execution = drive.run("1.28")
    drive.pass_time(40, step=10)
    assert drive.service()["desiredCount"] == 3
    _roll_back(drive, execution)
    assert execution.outcome == "ROLLED_BACK"
    assert scaling.target is None
    assert (drive.service()["desiredCount"], drive.service()["runningCount"]) == (1, 1)
    check = RollbackCheck.objects.get(subject="Desired count of Service myapp")
    assert (check.passed, check.actual, check.note) == (True, "1", "")


def test_a_count_that_somebody_set_before_a_retry_stays_after_the_rollback(
    drive: Drive, scaling: AutoScaling
) -> None:
    _leave_count_out()
    drive.run("1.27")
    drive.pipeline.yaml = drive.pipeline.yaml.replace("spec: {}\n", f"spec: {{}}\n{RETRY}", 1)
    drive.pipeline.save(update_fields=["yaml"])
    execution = drive.start("nopull")
    while not any("is tried again in 60 seconds" in line for line in drive.log(execution)):
        drive.pass_time(5)
    scaling.set_count(3)
    drive.until_over(execution)
    updates = [call for call in drive.calls(execution) if call.operation == "UpdateService"]
    assert [call.parsed_parameters.get("desiredCount") for call in updates[:2]] == [None, None]
    assert execution.outcome == "ROLLED_BACK"
    assert drive.service()["desiredCount"] == 3
    check = RollbackCheck.objects.get(subject="Desired count of Service myapp")
    assert (check.passed, check.actual) == (True, "3")
    assert check.note == "changed outside Slipway, not restored"


@pytest.mark.parametrize("had_target", [True, False])
def test_a_count_within_the_bounds_that_somebody_set_before_a_retry_stays(
    drive: Drive, scaling: AutoScaling, had_target: bool
) -> None:
    drive.run("1.27")
    if had_target:
        scaling.register_target(2, 4)
    drive.pipeline.yaml = drive.pipeline.yaml.replace("spec: {}\n", f"spec: {{}}\n{RETRY}", 1)
    drive.pipeline.save(update_fields=["yaml"])
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    execution = drive.start("1.28")
    while not any("is tried again in 60 seconds" in line for line in drive.log(execution)):
        drive.pass_time(5)
    drive.sandbox.clear_faults()
    scaling.register_target(10, 20)
    scaling.set_count(12)
    drive.until_over(execution)
    assert execution.outcome == "COMPLETED"
    assert (drive.service()["desiredCount"], scaling.is_active) == (12, True)
    step = StepExecution.objects.get(stage__execution=execution, type="EcsRollingDeploy")
    assert step.outputs["scalingBounds"] == [10, 20]
    _roll_back(drive, execution)
    assert execution.outcome == "ROLLED_BACK"
    assert drive.service()["desiredCount"] == 12


def test_the_running_count_is_kept_where_the_step_says_so(drive: Drive, scaling: AutoScaling) -> None:
    drive.run("1.27")
    scaling.set_count(2)
    _set_desired_count(5)
    _as_running(drive.pipeline)
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    assert (drive.service()["desiredCount"], drive.service()["runningCount"]) == (2, 2)


def test_a_retry_does_not_keep_the_few_tasks_that_its_first_attempt_left(
    drive: Drive, scaling: AutoScaling
) -> None:
    drive.run("1.27")
    scaling.set_count(4)
    node = FileNode.objects.get(path=SERVICE_FILE)
    node.content = node.content.replace("maximumPercent: 200", "maximumPercent: 100")
    node.content = node.content.replace("minimumHealthyPercent: 100", "minimumHealthyPercent: 50")
    node.save()
    _as_running(drive.pipeline)
    drive.pipeline.yaml = drive.pipeline.yaml.replace("Instances: true}\n", f"Instances: true}}\n{RETRY}", 1)
    drive.pipeline.save(update_fields=["yaml"])
    execution = drive.start("crash")
    while not any("is tried again in 60 seconds" in line for line in drive.log(execution)):
        drive.pass_time(5)
    assert drive.service()["runningCount"] < 4
    drive.until_over(execution)
    updates = [call for call in drive.calls(execution) if call.operation == "UpdateService"]
    assert [call.parsed_parameters.get("desiredCount") for call in updates[:2]] == [4, None]
    assert drive.service()["desiredCount"] == 4


def test_keeping_the_running_count_never_turns_an_outage_into_zero_tasks(
    drive: Drive, scaling: AutoScaling
) -> None:
    """None runs because all crash: the deployment that mends it must not ask for none."""
    drive.run("1.27")
    _as_running(drive.pipeline)
    scaling.set_count(0)
    empty = drive.run("1.28")
    assert (empty.outcome, drive.service()["desiredCount"]) == ("COMPLETED", 0)
    crashing = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": "fargate-task-definition"})
    definition = {
        key: crashing["taskDefinition"][key]
        for key in ("family", "networkMode", "cpu", "memory", "requiresCompatibilities", "executionRoleArn")
    }
    containers = [{**crashing["taskDefinition"]["containerDefinitions"][0], "image": "library/nginx:crash"}]
    response = drive.call("ecs", "RegisterTaskDefinition", {**definition, "containerDefinitions": containers})
    arn = response["taskDefinition"]["taskDefinitionArn"]
    place = {"cluster": "demo", "service": "myapp"}
    drive.call("ecs", "UpdateService", {**place, "taskDefinition": arn, "desiredCount": 2})
    for _ in range(60):
        drive.pass_time(1)
        if drive.service()["runningCount"] == 0 and drive.service()["pendingCount"] == 0:
            break
    assert drive.service()["runningCount"] == 0
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED"
    assert drive.service()["desiredCount"] == 2
