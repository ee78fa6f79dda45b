"""What others do during a deployment is named, and never makes a result look better than it is."""

from datetime import datetime, timedelta

import pytest

from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.models import Execution, RollbackCheck
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _notes(execution: Execution) -> list[str]:
    return [note["text"] for note in execution.notes]


def _set_count(drive: Drive, count: int) -> None:
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": count})


def _seconds_until_over(drive: Drive, execution: Execution) -> float:
    """Return the seconds until the execution has failed, before any rollback."""
    began: datetime = drive.clock.now()
    for _ in range(200):
        drive.pass_time(1)
        execution.refresh_from_db()
        if execution.failure is not None:
            return (drive.clock.now() - began) / timedelta(seconds=1)
    raise AssertionError("nothing was noticed")


@pytest.mark.parametrize("tag", ["1.28", "crash"])
def test_a_count_that_somebody_sets_to_zero_is_no_success(drive: Drive, tag: str) -> None:
    drive.run("1.27")
    execution = drive.start(tag)
    drive.pass_time(12)
    _set_count(drive, 0)
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert "was changed from 1 to 0 while this deployment ran" in execution.failure["message"]
    # What somebody else has set is not changed back.
    assert drive.service()["desiredCount"] == 0
    item = RollbackCheck.objects.get(
        step__stage__execution=execution, subject="Desired count of Service myapp"
    )
    assert (item.expected, item.actual, item.passed) == ("1", "0", True)
    assert item.note == "changed outside Slipway, not restored"


def test_a_revision_that_somebody_deregistered_is_a_note_where_its_tasks_fail(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("crash")
    drive.pass_time(6)
    drive.call("ecs", "DeregisterTaskDefinition", {"taskDefinition": "fargate-task-definition:2"})
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    (note,) = _notes(execution)
    assert "fargate-task-definition:2 was deregistered outside Slipway" in note


def test_a_count_that_somebody_raises_is_a_note_beside_the_success(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(12)
    _set_count(drive, 3)
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    (note,) = _notes(execution)
    assert note.startswith("The desired count of Service myapp was changed from 1 to 3")
    assert note in drive.log(execution)


def test_tasks_that_somebody_stops_are_named_with_the_reason_given(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(30)
    new = drive.service()["deployments"][0]["id"]
    arns = drive.call("ecs", "ListTasks", {"cluster": "demo", "startedBy": new})["taskArns"]
    drive.call("ecs", "StopTask", {"cluster": "demo", "task": arns[0], "reason": "maintenance of the cage"})
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    (note,) = _notes(execution)
    task = arns[0].rsplit("/", 1)[-1]
    assert note == f"Somebody stopped ECS task {task} of this deployment: maintenance of the cage"


def test_a_forced_deployment_of_our_revision_supersedes_and_keeps_it_registered(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(12)
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "forceNewDeployment": True})
    assert _seconds_until_over(drive, execution) <= 35
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "SUPERSEDED")
    assert "forced a new deployment of the same task definition" in execution.failure["message"]
    arn = drive.service()["taskDefinition"]
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": arn})["taskDefinition"]
    assert (definition["revision"], definition["status"]) == (2, "ACTIVE")


def test_a_deployment_by_somebody_else_is_told_within_35_seconds(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(12)
    update = {"taskDefinition": "fargate-task-definition:1", "forceNewDeployment": True}
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", **update})
    assert _seconds_until_over(drive, execution) <= 35
    assert execution.outcome == "SUPERSEDED"
    assert "task-definition/fargate-task-definition:1 is PRIMARY, not ours" in execution.failure["message"]


def test_a_deleted_service_is_told_by_name_within_ten_seconds(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(12)
    drive.call("ecs", "DeleteService", {"cluster": "demo", "service": "myapp", "force": True})
    assert _seconds_until_over(drive, execution) <= 10
    assert execution.failure["message"] == "Service myapp was deleted outside Slipway."


def test_an_execution_that_a_person_rolls_back_ends_as_rolled_back(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK")
    assert {stage.status for stage in execution.stages.all()} == {"ROLLED_BACK"}


def test_an_abort_says_what_ecs_goes_on_doing(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("slow")
    drive.pass_time(12)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    deployment = drive.service()["deployments"][0]["id"]
    assert any(
        f"ECS goes on with deployment {deployment} of Service myapp" in line for line in drive.log(execution)
    )
