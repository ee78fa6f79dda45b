"""A rollback whose first plan AWS refuses takes another one, or stops and says why."""

import pytest

from deployments.execution.operations import roll_back_execution
from deployments.log import iterate_lines
from deployments.models import Execution
from inventory.queries.service_deployments import get_latest_deployment, list_service_deployments
from rbac.models import User
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
OLD = "fargate-task-definition:1"


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_a_revision_that_somebody_deregistered_is_registered_again(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("crash")
    drive.pass_time(12)
    drive.call("ecs", "DeregisterTaskDefinition", {"taskDefinition": OLD})
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    service = drive.service()
    assert service["runningCount"] == 1
    response = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": service["taskDefinition"]})
    assert response["taskDefinition"]["containerDefinitions"][0]["image"].endswith(":1.27")
    (note,) = [note["text"] for note in execution.notes]
    assert note.endswith(f"registered it again as {service['taskDefinition']}")


def test_an_undo_that_is_denied_is_tried_once_and_what_runs_stays_registered(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("crash")
    drive.pass_time(12)
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    mark = drive.mark()
    drive.until_over(execution)
    assert execution.status == "FAILED"
    tried = [entry for entry in drive.sandbox.journal(mark) if entry["operation"] == "UpdateService"]
    assert len(tried) == 1
    log = drive.log(execution)
    assert any(
        "Not restored: Create or update the ECS service. AWS denied ecs:UpdateService" in entry
        for entry in log
    )
    arn = drive.service()["taskDefinition"]
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": arn})["taskDefinition"]
    assert (definition["revision"], definition["status"]) == (2, "ACTIVE")
    (line,) = [entry for entry in log if entry.startswith("NOT RESTORED: Task definition arn")]
    assert "found ACTIVE, used by deployment ecs-svc/" in line


def test_a_rollback_that_ends_incomplete_leaves_no_completed_deployment(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    execution.refresh_from_db()
    drive.until_over(execution)
    assert _get_result(execution) == ("FAILED", "FAILED")
    (stage,) = execution.stages.all()
    assert stage.service is not None
    deployments = list_service_deployments(User.objects.get(username="admin"), stage.service)
    latest = get_latest_deployment(deployments, stage)
    assert latest is not None
    assert latest.execution.number == 1


def test_every_line_of_the_checklist_has_its_subject_and_its_own_level(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("crash")
    drive.pass_time(12)
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    drive.until_over(execution)
    lines = [
        line for line in iterate_lines(execution.pk) if line["text"].startswith(("ok: ", "NOT RESTORED: "))
    ]
    assert {line["level"] for line in lines if line["text"].startswith("ok: ")} == {"info"}
    broken = [line for line in lines if line["text"].startswith("NOT RESTORED: ")]
    assert broken
    assert all(
        line["level"] == "error" and "found " in line["text"] and ", expected " in line["text"]
        for line in broken
    )


def test_a_cluster_that_somebody_deleted_is_named_at_once_and_the_rollback_stops(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(12)
    drive.call("ecs", "DeleteService", {"cluster": "demo", "service": "myapp", "force": True})
    drive.pass_time(1)
    for arn in drive.call("ecs", "ListTasks", {"cluster": "demo"})["taskArns"]:
        drive.call("ecs", "StopTask", {"cluster": "demo", "task": arn})
    drive.sandbox.advance(60)
    drive.call("ecs", "DeleteCluster", {"cluster": "demo"})
    mark = drive.mark()
    drive.pass_time(12)
    execution.refresh_from_db()
    assert execution.failure is not None, drive.log(execution)[-5:]
    assert execution.failure["message"].startswith("Cluster demo was not found: it was deleted")
    drive.until_over(execution, most_seconds=5000)
    assert execution.status == "FAILED"
    assert execution.outcome != "ROLLED_BACK"
    assert drive.effects(mark) == []
    assert not any("Undoing failed" in line for line in drive.log(execution))
    assert any(
        "Not restored" in line and "Cluster demo was not found" in line for line in drive.log(execution)
    )


def test_a_rollback_that_was_held_up_looks_again_before_it_writes(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("crash")
    drive.pass_time(12)
    drive.sandbox.fault("throttle", operation="UpdateService", count=3)
    for _ in range(300):
        if any("throttling ecs UpdateService" in line for line in drive.log(execution)):
            break
        drive.pass_time(0.5, step=0.5)
    drive.sandbox.clear_faults()
    foreign = {"cluster": "demo", "service": "myapp", "taskDefinition": OLD, "forceNewDeployment": True}
    drive.call("ecs", "UpdateService", foreign)
    mark = drive.mark()
    drive.until_over(execution)
    assert execution.outcome == "SUPERSEDED", drive.log(execution)[-8:]
    assert "UpdateService" not in drive.effects(mark)


def test_a_rollback_that_ecs_completes_at_once_ends_when_reads_are_fresh(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("crash")
    for _second in range(90):
        execution.refresh_from_db()
        if execution.is_over:
            break
        drive.clock.move(1)
        drive.sandbox.advance(10)
        drive.reconcile()
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), drive.log(execution)
