"""What AWS can do to a deployment: lose answers, throttle, answer from the past, refuse."""

from collections import Counter

import pytest

from aws.errors import Unauthenticated
from deployments.execution.operations import roll_back_execution
from deployments.journal.runtime import set_hook
from deployments.log import iterate_lines
from deployments.models import AwsCall
from steps.actions.confirmations import CallRecord, Confirmation, NotApplied
from steps.actions.context import StepContext
from steps.actions.ecs_service.updates import CreateOrUpdateService
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

WRITES = ("RegisterTaskDefinition", "UpdateService")


@pytest.mark.parametrize("operation", [*WRITES, "DescribeServices"])
@pytest.mark.parametrize("kind", ["lost_answer", "error500", "throttle"])
def test_one_bad_answer_changes_neither_the_end_nor_the_effects(
    drive: Drive, operation: str, kind: str
) -> None:
    drive.run("1.27")
    mark = drive.mark()
    drive.sandbox.fault(kind, service="ecs", operation=operation, count=1)
    execution = drive.run("1.28")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    counts = Counter(drive.effects(after=mark))
    assert counts["RegisterTaskDefinition"] == 1
    assert counts["UpdateService"] == 1
    numbers = [line["number"] for line in iterate_lines(execution.pk)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("failpoint", ["commit.after", "call.sent"])
def test_a_worker_that_stood_still_before_sending_leaves_the_write_to_the_next(
    drive: Drive, failpoint: str, operation: str
) -> None:
    drive.run("1.27")
    mark = drive.mark()
    execution = drive.start("1.28")
    frozen_names: list[str] = []

    def freeze_worker(name: str) -> None:
        is_sent = AwsCall.objects.filter(execution=execution, operation=operation, state="SENT").exists()
        if name == failpoint and is_sent and not frozen_names:
            frozen_names.append(name)
            drive.pass_time(120, step=5)

    set_hook(freeze_worker)
    try:
        drive.until_over(execution)
    finally:
        set_hook(None)
    assert frozen_names
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    counts = Counter(drive.effects(after=mark))
    assert (counts["RegisterTaskDefinition"], counts["UpdateService"]) == (1, 1)


def test_a_lost_answer_in_the_rollback_is_not_sent_again(drive: Drive) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    mark = drive.mark()
    execution = drive.start("nopull")
    drive.pass_time(5)
    drive.sandbox.fault("lost_answer", service="ecs", operation="UpdateService", count=1)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert Counter(drive.effects(after=mark))["UpdateService"] == 2
    assert drive.service()["taskDefinition"] == before


def test_reads_from_the_past_are_not_believed(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(1)
    drive.sandbox.fault("stale_reads", seconds=20)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")


def test_a_denied_call_names_the_missing_action_and_is_undone(drive: Drive) -> None:
    drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService", count=1)
    execution = drive.run("1.28")
    assert execution.failure["code"] == "ACCESS_DENIED"
    assert "ecs:UpdateService" in execution.failure["message"]
    assert execution.status == "FAILED"


def test_a_policy_without_deregistering_does_not_spoil_a_rollback(drive: Drive) -> None:
    drive.run("1.27")
    drive.sandbox.fault("denied", service="ecs", operation="DeregisterTaskDefinition", seconds=3600)
    execution = drive.run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert any("ecs:DeregisterTaskDefinition" in line for line in drive.log(execution))


def test_a_write_that_nobody_can_confirm_is_not_restored_until_a_later_rollback_can(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive.run("1.27")
    running_definition = drive.service()["taskDefinition"]

    def fail(self: CreateOrUpdateService, context: StepContext, call: CallRecord) -> Confirmation:
        raise Unauthenticated("ExpiredTokenException", "the token has expired", "ecs", "DescribeServices")

    drive.sandbox.fault("lost_answer", operation="UpdateService", count=1)
    with monkeypatch.context() as patch:
        patch.setattr(CreateOrUpdateService, "confirm", fail)
        execution = drive.run("1.28")
    assert execution.failure["code"] == "CREDENTIALS_REFUSED"
    assert execution.outcome != "ROLLED_BACK"
    assert any("Not restored:" in line and "has expired" in line for line in drive.log(execution))
    assert drive.service()["taskDefinition"] != running_definition
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    drive.until_over(execution)
    assert drive.service()["taskDefinition"] == running_definition, drive.log(execution)[-12:]


def test_a_read_that_began_before_aws_shows_a_write_does_not_prove_that_it_failed(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive.run("1.27")

    def read_and_deny(self: CreateOrUpdateService, context: StepContext, call: CallRecord) -> Confirmation:
        context.ecs.describe_service(context.cluster, "myapp")
        return NotApplied()

    mark = drive.mark()
    drive.sandbox.fault("lost_answer", operation="UpdateService", count=1)
    monkeypatch.setattr(CreateOrUpdateService, "confirm", read_and_deny)
    execution = drive.start("1.28")
    drive.pass_time(20)
    update = AwsCall.objects.get(execution=execution, operation="UpdateService")
    assert update.state == "UNKNOWN"
    assert drive.effects(mark).count("UpdateService") == 1
