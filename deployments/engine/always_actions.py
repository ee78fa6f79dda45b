"""Always-actions: actions of a step that run however the step ended."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from deployments.engine.action_phases import (
    LONGEST_BACKOFF_SECONDS,
    OTHER_VERSION_INTERVAL,
    OTHER_VERSION_NEEDED,
    OTHER_VERSION_SINCE,
    OTHER_VERSION_TIMEOUT,
    PhaseFailed,
    PhaseFinished,
    PhaseWaiting,
    is_loadable,
    run_phase,
    wait_for_other_version,
)
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.engine.transitions import list_always_actions
from deployments.journal.callers import CHECK_PHASE
from deployments.models import ActionRun, StepExecution
from steps.states import ActionState, Status

_FINISHED_STATES = (ActionState.DONE, ActionState.SKIPPED, ActionState.FAILED)
# Statuses of steps that ended without the rest of their actions, while the stage continues.
_CONTINUING_STATUSES = (Status.IGNORE_FAILED, Status.SKIPPED, Status.SUCCESS)
# Later steps start after this time although the always-action is unfinished, such as without a delegate.
LONGEST_START_DELAY = timedelta(minutes=10)
# Note of how long an always-action was tried, and when last. More than a pause between two tries is an outage
# of the workers: nothing was tried in it, so later steps go on waiting.
_TRIED = "tried"
_LONGEST_PAUSE = timedelta(seconds=LONGEST_BACKOFF_SECONDS)


def get_next_always_action(
    reconcile_context: ReconcileContext, steps: Iterable[StepExecution]
) -> ActionRun | None:
    """Return the next always-action of those steps that have started."""
    names = list_always_actions()
    started_steps = [step for step in steps if step.started_at is not None]
    started_steps.sort(key=lambda step: (step.stage.position, step.position))
    rows = (row for step in started_steps for row in reconcile_context.rows.list_actions(step))
    return next((row for row in rows if row.name in names and row.state not in _FINISHED_STATES), None)


def list_unfinished_steps(reconcile_context: ReconcileContext) -> list[StepExecution]:
    """Return the ended steps of the stage whose always-actions have not run, as after an ignored failure."""
    steps = reconcile_context.rows.list_section_steps(reconcile_context.stage)
    ended_steps = [step for step in steps if step.status in _CONTINUING_STATUSES]
    return [step for step in ended_steps if get_next_always_action(reconcile_context, [step]) is not None]


def list_current_steps(
    reconcile_context: ReconcileContext, unfinished: Sequence[StepExecution]
) -> list[StepExecution]:
    """Return the current steps; none starts while always-actions of a step before it are unfinished.

    It may change the same ECS service, or run tasks that look like leftover ones.
    """
    flow = reconcile_context.rows.build_flow(reconcile_context.stage)
    delaying = [step for step in unfinished if _delays_later_steps(reconcile_context, step)]
    return [
        step
        for step in flow.list_current()
        if step.status != Status.QUEUED or all(flow.is_parallel(step, ended_step) for ended_step in delaying)
    ]


def _delays_later_steps(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    row = get_next_always_action(reconcile_context, [step])
    return row is not None and _measure_tries(row, reconcile_context.runtime.now()) < LONGEST_START_DELAY


def _measure_tries(row: ActionRun, now: datetime) -> timedelta:
    """Return how long an always-action was tried, without outages of the workers."""
    if (tried := row.progress.get(_TRIED)) is None:
        return timedelta()
    pause = now - datetime.fromisoformat(tried["at"])
    return timedelta(seconds=tried["seconds"]) + min(pause, _LONGEST_PAUSE)


def advance_always_action(reconcile_context: ReconcileContext, row: ActionRun) -> timedelta | None:
    """Start an always-action, or check whether it is done; None means continue immediately."""
    now = reconcile_context.runtime.now()
    if row.state == ActionState.WAITING:
        reconcile_context.change(row, state=ActionState.STARTED, started_at=now)
    tried = {"at": now.isoformat(), "seconds": _measure_tries(row, now).total_seconds()}
    reconcile_context.change(row, progress={**row.progress, _TRIED: tried})
    if not is_loadable(row):
        wait_for_other_version(reconcile_context, row, row.step)
        if now - datetime.fromisoformat(row.progress[OTHER_VERSION_SINCE]) < OTHER_VERSION_TIMEOUT:
            return OTHER_VERSION_INTERVAL
        # Its step has ended, so nobody could decide about it.
        _record_failure(reconcile_context, row, OTHER_VERSION_NEEDED)
        return None
    phase = "start" if row.start_done_at is None else CHECK_PHASE
    end = run_phase(reconcile_context, row, phase, _PHASE_FUNCTIONS[phase])
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        _record_failure(reconcile_context, row, end.failure.message)
        return None
    assert isinstance(end, PhaseFinished)  # noqa: S101 - only replayed starts end otherwise
    now = reconcile_context.runtime.now()
    if phase == "start":
        reconcile_context.change(row, start_done_at=now)
    elif end.value:
        reconcile_context.change(row, state=ActionState.DONE, ended_at=now)
    else:
        # An answer of a delegate that this check did not use would be too old for a later one.
        end.context.drop_results()
    end.context.finish(keep_progress=phase == CHECK_PHASE)
    reconcile_context.save()
    return None if phase == "start" or end.value else timedelta(seconds=5)


_PHASE_FUNCTIONS = {
    "start": lambda action, context: action.start(context),
    CHECK_PHASE: lambda action, context: action.is_done(context),
}


def _record_failure(reconcile_context: ReconcileContext, row: ActionRun, message: str) -> None:
    """Record the failure of an always-action; the execution still ends."""
    now, detail = reconcile_context.runtime.now(), reconcile_context.mask.mask_text(message)[:512]
    append_log(
        reconcile_context, row.step, f"{row.title} failed: {message} Do it by hand.", "error", row.unit
    )
    reconcile_context.change(row, state=ActionState.FAILED, ended_at=now, detail=detail)
    reconcile_context.save()
