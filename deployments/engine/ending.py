"""The end of an execution: actions that always run, statuses, the slot, the end mark of the log."""

from dataclasses import replace
from datetime import timedelta

from deployments.engine import slots
from deployments.engine.flow import ENDED_BADLY
from deployments.engine.running import Failed, Finished, Wait, run
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.models import ActionRun
from deployments.notifying import tell_end
from steps.actions.base import known_actions
from steps.states import TERMINAL, ActionState, Status

OVER = (ActionState.DONE, ActionState.SKIPPED, ActionState.FAILED)


def advance(shared: Shared) -> timedelta | None:
    """Run what must run however the stage ended, then end the execution; None means go on at once."""
    row = _next_always(shared)
    if row is None:
        _end(shared)
        return None
    if row.step.stage_id != shared.stage.pk:
        shared = replace(shared, stage=row.step.stage)
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
    now = shared.world.now()
    if phase == "start":
        shared.change(row, start_done_at=now)
    elif end.value:
        shared.change(row, state=ActionState.DONE, ended_at=now)
    end.rollout.finish(keep_progress=phase == "look")
    shared.save()
    return None if phase == "start" or end.value else timedelta(seconds=5)


_bodies = {
    "start": lambda action, rollout: action.start(rollout),
    "look": lambda action, rollout: action.is_done(rollout),
}


def _next_always(shared: Shared) -> ActionRun | None:
    always = [name for name, action in known_actions().items() if action.runs_always]
    begun = [step for step in shared.rows.all_steps if step.started_at is not None]
    begun.sort(key=lambda step: (step.stage.position, step.position))
    rows = (row for step in begun for row in shared.rows.actions_of(step))
    return next((row for row in rows if row.name in always and row.state not in OVER), None)


def _note_failure(shared: Shared, row: ActionRun, message: str) -> None:
    """The execution ends all the same; what stayed undone is said, and marked on the action."""
    now = shared.world.now()
    say(shared, row.step, f"{row.title} failed: {message} Do it by hand.", "error", row.unit)
    shared.change(row, state=ActionState.FAILED, ended_at=now, detail=message[:512])
    shared.save()


def _goes_on(shared: Shared) -> bool:
    """Close the stage that failed where a later one runs after a failure; False if none does."""
    execution, stage = shared.execution, shared.stage
    later = [one for one in shared.rows.stages if one.position > stage.position]
    if stage.status in TERMINAL or all(one.status != Status.QUEUED for one in later):
        return False
    with shared.commit(reload=True):
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
    for stage in shared.rows.stages:
        if stage.status not in TERMINAL:
            shared.change(stage, status=execution.ending)
            for step in shared.rows.steps_in(stage):
                if step.status not in TERMINAL:
                    shared.change(step, status=Status.SKIPPED)
    shared.change(execution, status=execution.ending, ending="", ended_at=shared.world.now())
    with shared.commit():
        slots.release(shared)
        tell_end(execution, shared.mask)
