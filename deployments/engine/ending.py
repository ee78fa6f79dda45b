"""The end of an execution: actions that always run, statuses, the slot, the end mark of the log."""

from dataclasses import replace
from datetime import timedelta

from deployments.actions.base import known_actions
from deployments.engine import slots
from deployments.engine.flow import ENDED_BADLY
from deployments.engine.masking import secrets_of
from deployments.engine.running import Failed, Finished, Wait, run
from deployments.engine.shared import Shared
from deployments.log import NewLine, store
from deployments.models import ActionRun, StepExecution
from deployments.notifying import tell_end
from deployments.states import TERMINAL, ActionState, Status

OVER = (ActionState.DONE, ActionState.SKIPPED, ActionState.FAILED)


def advance(shared: Shared) -> timedelta | None:
    """Run what must run however the stage ended, then end the execution; None means go on at once."""
    row = _next_always(shared)
    if row is None:
        _end(shared)
        return None
    if row.step.stage_id != shared.stage.pk:
        shared = replace(shared, stage=row.step.stage, secrets=secrets_of(row.step.stage))
    if row.state == ActionState.WAITING:
        shared.change(row, state=ActionState.STARTED, started_at=shared.world.now())
    phase = "start" if row.start_done_at is None else "look"
    end = run(shared, row, phase, _bodies[phase])
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        _note_failure(shared, row, end.failure.message)
        return None
    assert isinstance(end, Finished)  # noqa: S101 - only replayed starts end otherwise
    with shared.lease.commit():
        now = shared.world.now()
        if phase == "start":
            shared.change(row, start_done_at=now)
        elif end.value:
            shared.change(row, state=ActionState.DONE, ended_at=now)
        end.rollout.finish(keep_progress=phase == "look")
    return None if phase == "start" or end.value else timedelta(seconds=5)


_bodies = {
    "start": lambda action, rollout: action.start(rollout),
    "look": lambda action, rollout: action.is_done(rollout),
}


def _next_always(shared: Shared) -> ActionRun | None:
    always = [name for name, action in known_actions().items() if action.runs_always]
    begun = StepExecution.objects.filter(stage__execution=shared.execution).exclude(started_at=None)
    row: ActionRun | None = (
        ActionRun.objects.filter(step__in=begun, name__in=always)
        .exclude(state__in=OVER)
        .select_related("step__stage__connector__secret", "step__stage__execution")
        .order_by("step__stage__position", "step__position", "position")
        .first()
    )
    return row


def _note_failure(shared: Shared, row: ActionRun, message: str) -> None:
    """The execution ends all the same; what stayed undone is said, and marked on the action."""
    now = shared.world.now()
    with shared.lease.commit():
        line = f"{row.title} failed: {message} Do it by hand."
        store(
            shared.execution.pk,
            [NewLine(now, row.step.pk, row.step.identifier, row.unit, "error", line)],
            mask=shared.mask,
        )
        row.state, row.ended_at, row.detail = ActionState.FAILED, now, message[:512]
        row.save(update_fields=["state", "ended_at", "detail"])


def _goes_on(shared: Shared) -> bool:
    """Close the stage that failed where a later one runs after a failure; False if none does."""
    execution, stage = shared.execution, shared.stage
    later = execution.stages.filter(position__gt=stage.position, status=Status.QUEUED)
    if stage.status in TERMINAL or not later.exists():
        return False
    with shared.lease.commit():
        stage.status = execution.ending
        stage.save(update_fields=["status"])
        stage.steps.exclude(status__in=TERMINAL).update(status=Status.SKIPPED)
        slots.release(shared)
        execution.ending, execution.status = "", Status.RUNNING
        execution.save(update_fields=["ending", "status"])
    return True


def _end(shared: Shared) -> None:
    execution = shared.execution
    if execution.ending in ENDED_BADLY and _goes_on(shared):
        return
    with shared.lease.commit():
        for stage in execution.stages.exclude(status__in=TERMINAL):
            stage.status = execution.ending
            stage.save(update_fields=["status"])
            stage.steps.exclude(status__in=TERMINAL).update(status=Status.SKIPPED)
        slots.release(shared)
        execution.status, execution.ending = execution.ending, ""
        execution.ended_at = shared.world.now()
        execution.save(update_fields=["status", "ending", "ended_at"])
        tell_end(execution, shared.mask)
