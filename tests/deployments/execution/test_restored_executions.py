"""Executions of a restored database: nothing changes in AWS before a person decides."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from deployments.execution.operations import abort_execution, decide_step
from deployments.execution.restored_executions import pause_open_executions
from deployments.models import Execution, Interrupt, ServiceLock, StageExecution, StepExecution
from rbac.models import AuditEntry
from tests.deployments.execution.conftest import Strategies, UntilAsked
from tests.fixtures.engine_driver import Drive
from web.http.problems import Conflict

Restore = Callable[[Execution], StepExecution]


@pytest.fixture
def restore(drive: Drive) -> Restore:
    """Pause what is under way, as after a restore of a backup of a day ago; return the step that asks."""

    def pause(execution: Execution) -> StepExecution:
        now = drive.clock.now()
        assert pause_open_executions(taken_at=now - timedelta(days=1), now=now) == 1
        execution.refresh_from_db()
        steps = StepExecution.objects.filter(stage__execution=execution).exclude(intervention=None)
        return steps.get()

    return pause


def decide(drive: Drive, step: StepExecution, decision: str) -> None:
    execution = Execution.objects.get(stages__steps=step)
    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision=decision)


def test_nothing_is_called_before_the_answer_and_go_on_ends_the_deployment(
    drive: Drive, restore: Restore
) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    step = restore(execution)
    mark, calls = drive.mark(), len(drive.calls(execution))
    drive.pass_time(300, step=10)

    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    assert drive.mark() == mark
    assert len(drive.calls(execution)) == calls

    decide(drive, step, "GO_ON")
    assert drive.until_over(execution).status == "SUCCESS"
    assert "CreateService" not in drive.effects(mark)
    assert drive.effects().count("CreateService") + drive.effects().count("UpdateService") == 1
    assert any("decided about step" in line and "go on" in line for line in drive.log(execution))


@pytest.mark.parametrize("seconds", [20, 4, 0])
def test_an_execution_ends_without_changes_and_frees_its_service(
    drive: Drive, restore: Restore, seconds: int
) -> None:
    execution = drive.start("2.0")
    if seconds:
        drive.pass_time(seconds)
    step = restore(execution)
    mark = drive.mark()
    decide(drive, step, "END_UNCHANGED")
    execution = drive.until_over(execution)

    assert (execution.status, execution.outcome) == ("ABORTED", "ABORTED")
    assert "ended this execution without changes" in (execution.failure or {})["message"]
    assert drive.effects(mark) == []
    assert not ServiceLock.objects.exists()
    assert drive.run("3.0").status == "SUCCESS"


def test_a_rollback_that_was_under_way_waits_too(drive: Drive, restore: Restore) -> None:
    drive.run("1.0")
    execution = drive.start("2.0")
    drive.pass_time(20)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.pass_time(2)
    step = restore(execution)
    assert step.section == "ROLLBACK"
    mark = drive.mark()
    drive.pass_time(60, step=10)
    assert drive.effects(mark) == []

    decide(drive, step, "GO_ON")
    assert drive.until_over(execution).outcome == "ROLLED_BACK"
    assert drive.service()["taskDefinition"].endswith(":1")


def test_a_question_that_was_open_is_open_again_afterwards(
    drive: Drive, restore: Restore, strategies: Strategies, until_asked: UntilAsked
) -> None:
    strategies("""
- onFailure:
    errors: [AllErrors]
    action: {type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Abort}}}}
""")
    execution = until_asked(drive.start("crash"))
    step = restore(execution)
    assert step.intervention["before_restore"]["intervention"]["kind"] == "FAILED"
    until = step.intervention["before_restore"]["intervention"]["until"]
    decide(drive, step, "GO_ON")
    drive.pass_time(3)

    step.refresh_from_db()
    assert step.intervention["kind"] == "FAILED"
    assert step.intervention["until"] > until, "nobody could decide while the backup lay on a shelf"
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"


def test_requests_of_before_are_dropped_and_new_ones_wait_for_the_answer(
    drive: Drive, restore: Restore
) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    abort_execution(actor=drive.deployer, execution=execution)
    step = restore(execution)

    assert Interrupt.objects.get().result == "Not applied: the database was restored from a backup."
    with pytest.raises(Conflict, match="comes from a restored backup"):
        abort_execution(actor=drive.deployer, execution=execution)
    with pytest.raises(Conflict, match="Possible decisions: GO_ON, END_UNCHANGED"):
        decide(drive, step, "RETRY")


def test_the_api_shows_the_question_takes_the_answer_and_audits_it(
    drive: Drive, restore: Restore, client: APIClient
) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    step = restore(execution)
    document = client.get(f"/api/v1/executions/{execution.pk}").json()
    question = next(
        item["intervention"]
        for item in document["stages"][0]["steps"]
        if item["identifier"] == step.identifier
    )
    assert question["kind"] == "RESTORED"
    assert question["choices"] == ["GO_ON", "END_UNCHANGED"]
    assert question["taken_at"]
    assert "before_restore" not in question

    answer = client.post(
        f"/api/v1/executions/{execution.pk}/decisions",
        {"step": step.identifier, "decision": "END_UNCHANGED"},
        format="json",
    )
    assert answer.status_code < 300, answer.content
    assert AuditEntry.objects.filter(action="execution.end_unchanged", thing_id=str(execution.pk)).exists()
    assert drive.until_over(execution).status == "ABORTED"


def test_a_second_restore_leaves_the_question_as_it_is(drive: Drive, restore: Restore) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    step = restore(execution)
    assert pause_open_executions(taken_at=drive.clock.now(), now=drive.clock.now()) == 0
    decide(drive, step, "GO_ON")
    assert drive.until_over(execution).status == "SUCCESS"


def test_no_worker_of_before_a_restore_writes_after_it(drive: Drive, restore: Restore) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    Execution.objects.update(lease_owner="of-before", lease_expires_at=drive.clock.now())
    restore(execution)
    first = Execution.objects.get()
    later = drive.clock.now() + timedelta(minutes=1)

    assert pause_open_executions(taken_at=later, now=later) == 0
    again = Execution.objects.get()
    assert (first.lease_owner, again.lease_owner) == ("", "")
    assert execution.fence > 1_000_000
    assert again.fence > first.fence


def test_a_crash_of_a_pass_leaves_the_question(drive: Drive, restore: Restore) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    step, mark = restore(execution), drive.mark()
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.FAIL, result="KeyError in pass")
    drive.pass_time(300, step=10)

    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    assert drive.effects(mark) == []
    decide(drive, step, "GO_ON")
    assert drive.until_over(execution).status == "SUCCESS"


@pytest.mark.parametrize("decision", ["GO_ON", "END_UNCHANGED"])
def test_a_stage_without_steps_leaves_the_question_to_the_one_before(
    drive: Drive, restore: Restore, decision: str
) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    copy_stage_without_steps(execution, position=1)
    StageExecution.objects.filter(execution=execution, position=0).update(status="SUCCESS")
    step = restore(execution)
    assert step.stage.position == 0

    decide(drive, step, decision)
    status = drive.until_over(execution).status
    assert status == ("SUCCESS" if decision == "GO_ON" else "ABORTED")


def test_an_execution_without_steps_ends(drive: Drive) -> None:
    execution = drive.start("2.0")
    StepExecution.objects.all().delete()
    now = drive.clock.now()

    assert pause_open_executions(taken_at=now, now=now) == 0
    execution.refresh_from_db()
    assert (execution.status, execution.outcome, execution.ended_at) == ("ABORTED", "ABORTED", now)


def copy_stage_without_steps(execution: Execution, *, position: int) -> None:
    """Add a stage like the first one, which has nothing to do."""
    stage = execution.stages.get(position=0)
    stage.pk, stage.position, stage.status = None, position, "QUEUED"
    stage.identifier = f"{stage.identifier}_{position}"
    stage.save(force_insert=True)
