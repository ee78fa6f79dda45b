"""Trying again: a deployment from the first step that was undone, a rollback that ended incomplete."""

import pytest
import yaml
from django.utils import timezone
from rest_framework.test import APIClient

from deployments.engine.transitions import RETRY_BEGUN, ROLLBACK_BEGUN
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution, Interrupt, ServiceLock, StepExecution
from pipelines.models import Pipeline
from tests.deployments.execution.conftest import UntilAsked
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def blue_green(drive: Drive) -> Drive:
    """The blue/green demo, with a version that serves."""
    drive.pipeline = Pipeline.objects.get(identifier="blue_green_demo")
    assert drive.run("1.27").status == "SUCCESS"
    return drive


def _send_request(client: APIClient, execution: Execution, action: str) -> None:
    response = client.post(f"/api/v1/executions/{execution.pk}/{action}")
    assert response.status_code == 202, response.json()


def _list_steps(execution: Execution) -> list[StepExecution]:
    return list(
        StepExecution.objects.filter(stage__execution=execution, section="EXECUTION").order_by("position")
    )


def _deny_moves(drive: Drive) -> None:
    for operation in ("ModifyRule", "ModifyListener"):
        drive.sandbox.fault("denied", service="elbv2", operation=operation)


def _list_lines(drive: Drive, execution: Execution, text: str) -> list[str]:
    return [line for line in drive.log(execution) if text in line]


def test_a_retry_begins_at_the_first_step_that_was_undone(blue_green: Drive, client: APIClient) -> None:
    drive = blue_green
    _deny_moves(drive)
    execution = drive.run("1.28")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)[-5:]
    drive.sandbox.clear_faults()
    _send_request(client, execution, "retry")
    drive.reconcile()
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), drive.log(execution)[-5:]
    assert {(step.status, step.attempt, step.run) for step in _list_steps(execution)} == {("SUCCESS", 2, 2)}


def test_steps_that_come_after_a_retried_one_have_their_turn(drive: Drive, client: APIClient) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="canary_demo")
    drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="RegisterTaskDefinition")
    execution = drive.run("1.28")
    assert [step.status for step in _list_steps(execution)] == ["FAILED", "SKIPPED", "SKIPPED"]
    drive.sandbox.clear_faults()
    _send_request(client, execution, "retry")
    drive.reconcile()
    drive.until_over(execution)
    assert [step.status for step in _list_steps(execution)] == ["SUCCESS"] * 3
    assert not _list_steps(execution)[2].actions.exclude(state="DONE").exists()
    assert drive.service("webshop")["taskDefinition"].split(":")[-1] > "1"


def test_a_rollback_that_ended_incomplete_can_be_tried_again(drive: Drive, client: APIClient) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    execution = drive.start("crash")
    while not _list_lines(drive, execution, "Rolling back"):
        drive.pass_time(1)
        drive.sandbox.clear_faults()
        if drive.service()["taskDefinition"] != before:
            drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("FAILED", "FAILED")
    assert not _list_lines(drive, execution, "Undoing failed")
    assert _list_lines(drive, execution, "Not restored: Create or update the ECS service")
    drive.sandbox.clear_faults()
    _send_request(client, execution, "rollback")
    drive.reconcile()
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)[-9:]
    assert drive.service()["taskDefinition"] == before
    assert "Rollback verified." in drive.log(execution)


def test_while_traffic_does_not_go_back_nothing_is_deleted_and_a_person_decides(
    blue_green: Drive, client: APIClient, until_asked: UntilAsked
) -> None:
    drive = blue_green
    execution = drive.run("1.28")
    mark = drive.mark()
    _deny_moves(drive)
    _send_request(client, execution, "rollback")
    drive.reconcile()
    until_asked(execution)
    step = StepExecution.objects.get(
        stage__execution=execution, section="ROLLBACK", intervention__isnull=False
    )
    assert step.intervention is not None
    assert step.intervention["kind"] == "NOT_RESTORED"
    assert "DeleteService" not in drive.effects(after=mark)
    drive.sandbox.clear_faults()
    body = {"step": step.identifier, "decision": "RETRY"}
    assert client.post(f"/api/v1/executions/{execution.pk}/decisions", body, format="json").status_code == 202
    drive.reconcile()
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-9:]


def test_when_nobody_decides_about_traffic_the_rest_is_left_alone(
    blue_green: Drive, client: APIClient, until_asked: UntilAsked
) -> None:
    drive = blue_green
    execution = drive.run("1.28")
    _deny_moves(drive)
    _send_request(client, execution, "rollback")
    drive.reconcile()
    until_asked(execution)
    mark = drive.mark()
    drive.pass_time(3660, step=60)
    drive.until_over(execution)
    assert execution.status == "FAILED"
    assert "DeleteService" not in drive.effects(after=mark)
    assert "Nobody decided in time. The rest of the rollback is left undone." in drive.log(execution)


def test_rolling_back_later_takes_every_stage_back_the_newest_first(drive: Drive, client: APIClient) -> None:
    _add_canary_stage(drive)
    drive.run("1.27")
    before = [drive.service(name)["taskDefinition"] for name in ("myapp", "webshop")]
    execution = drive.run("1.28")
    assert execution.status == "SUCCESS"
    _send_request(client, execution, "rollback")
    drive.reconcile()
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK"), drive.log(execution)[-5:]
    assert [drive.service(name)["taskDefinition"] for name in ("myapp", "webshop")] == before
    assert drive.log(execution).count("Rollback verified.") >= 2
    assert not ServiceLock.objects.exists()


@pytest.mark.parametrize(
    ("results", "is_whole"),
    [
        ({"ROLL_BACK": ROLLBACK_BEGUN, "RETRY": "There is no failed step to retry."}, True),
        ({"RETRY": RETRY_BEGUN, "ROLL_BACK": "The execution is still running."}, False),
        ({"RETRY": RETRY_BEGUN, "ROLL_BACK": ROLLBACK_BEGUN}, True),
        ({"ROLL_BACK": ROLLBACK_BEGUN, "RETRY": RETRY_BEGUN}, False),
    ],
)
def test_a_refused_request_does_not_decide_how_far_a_rollback_goes(
    drive: Drive, results: dict[str, str], is_whole: bool
) -> None:
    _add_canary_stage(drive)
    drive.run("1.27")
    before = [drive.service(name)["taskDefinition"] for name in ("myapp", "webshop")]
    execution = drive.run("1.28")
    after = drive.service("myapp")["taskDefinition"]
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    Interrupt.objects.all().delete()
    for kind, result in results.items():
        Interrupt.objects.create(
            execution=execution, kind=kind, by=drive.deployer, result=result, applied_at=timezone.now()
        )
    drive.until_over(execution)
    first_service = before[0] if is_whole else after
    assert [drive.service(name)["taskDefinition"] for name in ("myapp", "webshop")] == [
        first_service,
        before[1],
    ]


def _add_canary_stage(drive: Drive) -> None:
    """Give the rolling pipeline of the drive a second stage, that of the canary demo."""
    first, second = (
        yaml.safe_load(Pipeline.objects.get(identifier=name).yaml)["pipeline"]
        for name in ("rolling_demo", "canary_demo")
    )
    second["stages"][0]["stage"]["identifier"] = "then"
    drive.pipeline.yaml = yaml.safe_dump(
        {"pipeline": {**first, "stages": first["stages"] + second["stages"]}}
    )
    drive.pipeline.save(update_fields=["yaml"])
