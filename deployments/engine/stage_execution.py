"""Execution of a stage: its steps in order, the actions of a step in order."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from deployments.approvals.requests import update_waiting_status
from deployments.engine import failures, preconditions, service_locks, transitions
from deployments.engine.action_phases import (
    PhaseFailed,
    PhaseFinished,
    PhaseWaiting,
    read_action,
    run_phase,
    wait_for_next_check,
)
from deployments.engine.reconcile_context import ReconcileContext, append_log, run_next_step
from deployments.engine.retries import retry_step
from deployments.engine.step_context import EngineStepContext
from deployments.engine.step_scheduler import ENDED_BADLY
from deployments.models import ActionRun, StepExecution
from pipelines.definition.deferred_expressions import resolve_spec
from steps import conditions
from steps.actions.base import Action, ActionFailed, get_actions
from steps.actions.context import StepContext
from steps.expressions import BadExpressionError
from steps.kinds.registry import BadStepError, get_step_kind, get_step_kinds
from steps.states import TERMINAL_STATUSES, ActionState, Outcome, Status, UndoState


class _CannotStart(Exception):
    """What a step names does not come to something that it can do."""


def start_step(shared: ReconcileContext, step: StepExecution) -> None:
    """The first look at a step, or at its next attempt."""
    rows = shared.rows.actions_of(step)
    try:
        preconditions.resolve_infrastructure(shared, step)
        if step.started_at is None and preconditions.skip_if_unmet(shared, step):
            return
        filled = _resolve_spec(shared, step, rows)
        trouble = None
    except _CannotStart as cannot:
        filled, trouble = [], ActionFailed("UNKNOWN_EXPRESSION", str(cannot))
    except ActionFailed as unplaced:
        filled, trouble = [], unplaced
    except conditions.UnclearConditionError as cannot:
        filled, trouble = [], build_condition_failure("step, or of a group around it,", str(cannot))
    now = shared.world.now()
    timeout_at = now + timedelta(seconds=step.timeout_seconds)
    shared.change(step, status=Status.RUNNING, started_at=now, timeout_at=timeout_at)
    if filled:
        shared.change(step, spec=step.spec, timeout_seconds=step.timeout_seconds)
    for row in filled:
        shared.change(row, parameters=row.parameters, title=row.title)
    shared.save()
    if trouble is not None:
        failures.fail_step(shared, step, None, trouble)


def build_condition_failure(what: str, trouble: str) -> ActionFailed:
    """What is said where a condition has no answer."""
    return ActionFailed("UNCLEAR_CONDITION", f"The condition of the {what} has no answer: {trouble}")


def _resolve_spec(shared: ReconcileContext, step: StepExecution, rows: list[ActionRun]) -> list[ActionRun]:
    """Fill in what is known only now; the actions whose parameters change with it, still to be written.

    Once an action has begun, all stay as they are: the journal holds what they sent. Raises `_CannotStart`.
    """
    if step.unresolved_spec is None or any(row.state != ActionState.WAITING for row in rows):
        return []
    kind = get_step_kind(step.type)
    try:
        values = shared.known_values()
        spec = {**step.spec, **resolve_spec(kind, step.unresolved_spec, values)}
        actions = [(unit.title, action) for unit in kind.units(spec) for action in unit.actions]
    except BadExpressionError as bad:
        raise _CannotStart(f"{'.'.join(map(str, bad.where))}: {bad.message}") from bad
    except BadStepError as bad:
        raise _CannotStart(str(bad)) from bad
    now = [(unit, type(action).__name__, action.version) for unit, action in actions]
    if now != [(row.unit, row.name, row.version) for row in rows]:
        raise _CannotStart(
            "With the values that are known now, the step would do other things than were planned. "
            "An expression that decides what a step does must be known when the run starts."
        )
    step.timeout_seconds += kind.seconds_on_purpose(spec) - kind.seconds_on_purpose(step.spec)
    step.spec = spec
    for row, (_, action) in zip(rows, actions, strict=True):
        row.parameters, row.title = action.parameters(), action.title
    return rows


# For what follows in a step whose last look found it done.
LAST_CHECK_GRACE = timedelta(minutes=1)


def start_stage(shared: ReconcileContext) -> None:
    """The first look at a stage: whether it runs at all, and then it does."""
    now = shared.world.now()
    try:
        reason, trouble = preconditions.get_skip_reason(shared), ""
    except conditions.UnclearConditionError as unclear:
        reason, trouble = "", str(unclear)
    if reason:
        preconditions.skip_stage(shared, reason)
        return
    started_at = shared.execution.started_at or now
    shared.change(shared.stage, status=Status.RUNNING)
    shared.change(shared.execution, status=Status.RUNNING, started_at=started_at)
    shared.save()
    if trouble:
        first = shared.rows.steps_of(shared.stage)[0]
        failures.fail_step(shared, first, None, build_condition_failure("stage", trouble))


def advance_stage(shared: ReconcileContext) -> timedelta | None:
    """One step of progress, of whichever current step has its turn; None means go on at once."""
    current = shared.rows.flow_of(shared.stage).current()
    if not current:
        _end_stage(shared)
        return None
    return run_next_step(shared, current, _advance_step)


def _advance_step(shared: ReconcileContext, step: StepExecution) -> timedelta | None:
    if step.status == Status.QUEUED:
        start_step(shared, step)
        return None
    if step.retry_at is not None:
        return _retry_after_pause(shared, step, step.retry_at)
    if (step.intervention or {}).get("kind") == "FAILED":
        return failures.check_intervention(shared, step)
    row = _next_action(shared, step)
    if service_locks.is_waiting_for_lock(shared, step):
        return _acquire_lock(shared, step, row)
    if _is_out_of_time(shared, step, row):
        _run_out_of_time(shared, step, row)
        return None
    if row is None:
        _end_step(shared, step)
        return None
    return advance_action(shared, row)


def _acquire_lock(shared: ReconcileContext, step: StepExecution, row: ActionRun | None) -> timedelta | None:
    """Wait for the ECS service that the step wants to change; its time does not run meanwhile."""
    try:
        return None if service_locks.acquire_lock(shared, step) else service_locks.LOCK_RETRY_INTERVAL
    except ActionFailed as crossed:
        failures.fail_step(shared, step, row, crossed)
        return None


def _is_out_of_time(shared: ReconcileContext, step: StepExecution, row: ActionRun | None) -> bool:
    """Whether the step has run out of time, and no action is there that says so itself."""
    if step.timeout_at is None or shared.world.now() < step.timeout_at:
        return False
    action = get_actions().get(row.name) if row is not None else None
    return action is None or not action.watches_timeout


def advance_action(shared: ReconcileContext, row: ActionRun) -> timedelta | None:
    """Start an action, or look whether it is done."""
    if row.state == ActionState.WAITING:
        shared.change(row, state=ActionState.STARTED, started_at=shared.world.now())
    if row.start_done_at is None:
        end = run_phase(shared, row, "start", _start)
    else:
        end = run_phase(shared, row, "look", _is_done)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        failures.fail_step(shared, row.step, row, end.failure)
        return None
    assert isinstance(end, PhaseFinished)  # noqa: S101 - a start that may send never ends as NeverHappened
    if row.start_done_at is not None:
        return _finish_check(shared, row, end)
    return _finish_start(shared, row, end.context)


def _start(action: Action, context: StepContext) -> None:
    action.start(context)


def _is_done(action: Action, context: StepContext) -> bool:
    return action.is_done(context)


def _finish_start(shared: ReconcileContext, row: ActionRun, context: EngineStepContext) -> timedelta | None:
    now = shared.world.now()
    shared.change(row, start_done_at=now)
    context.finish(keep_progress=False)
    context.drop_results()
    shared.save()
    return (
        wait_for_next_check(shared, context, since=now, deadline=row.step.timeout_at)
        if context.waits_for_service
        else None
    )


def _finish_check(shared: ReconcileContext, row: ActionRun, end: PhaseFinished) -> timedelta | None:
    now = shared.world.now()
    if end.value:
        shared.change(row, state=ActionState.DONE, ended_at=now)
        _settle_earlier_actions(shared, row)
    end.context.finish(keep_progress=True)
    status = Status.RUNNING if end.value else end.context.waits_as
    if status == Status.APPROVAL_WAITING:
        with shared.commit():
            update_waiting_status(shared, row.step, status)
    elif row.step.status != status and row.step.status not in TERMINAL_STATUSES:
        shared.change(row.step, status=status)
    if end.value:
        shared.save()
        return None
    # What this look saw is written when the pass ends, or by the next commit.
    if end.context.people_until is not None:
        return min(end.context.people_until - now, failures.INTERVENTION_CHECK_INTERVAL)
    return wait_for_next_check(
        shared, end.context, since=row.start_done_at or now, deadline=row.step.timeout_at
    )


def _settle_earlier_actions(shared: ReconcileContext, row: ActionRun) -> None:
    """What this action made needless is not undone any more."""
    types = read_action(row).settles
    if types:
        for step in shared.rows.steps_of(shared.stage, row.step.section):
            if step.type in types and step.position < row.step.position:
                for action in shared.rows.actions_of(step):
                    shared.change(action, undo_state=UndoState.SETTLED)


def _next_action(shared: ReconcileContext, step: StepExecution) -> ActionRun | None:
    done = (ActionState.DONE, ActionState.SKIPPED)
    return next((row for row in shared.rows.actions_of(step) if row.state not in done), None)


def _retry_after_pause(shared: ReconcileContext, step: StepExecution, at: datetime) -> timedelta | None:
    """The pause before a retry, and then the retry."""
    if (left := at - shared.world.now()) > timedelta(0):
        return left
    with shared.commit(reload=True):
        retry_step(step)
        append_log(shared, step, f"Trying step {step.name} again: attempt {step.attempt}", "warning")
    return None


def _end_step(shared: ReconcileContext, step: StepExecution) -> None:
    shared.change(step, status=Status.SUCCESS, retries=0, ended_at=shared.world.now())
    shared.save()


def _end_stage(shared: ReconcileContext) -> None:
    rows, stage, execution = shared.rows, shared.stage, shared.execution
    marked = [step for step in rows.steps_of(stage) if step.status in ENDED_BADLY]
    if marked:
        # A step was marked as failure, and those that run after a failure have run.
        with shared.commit(reload=True):
            transitions.skip_later_stages(shared, Status(marked[0].status))
            transitions.set_final_status(shared, Status(marked[0].status))
        return
    if any(one.position > stage.position for one in rows.stages):
        failures.close_stage(shared, Status.SUCCESS)
        return
    ignored = any(step.status == Status.IGNORE_FAILED for step in rows.all_steps)
    failed = next((one for one in rows.stages if one.status in ENDED_BADLY), None)
    if failed is not None and stage.status not in TERMINAL_STATUSES:
        # This one ran because an earlier one failed.
        shared.change(stage, status=Status.SUCCESS)
    shared.change(
        execution,
        final_status=failed.status if failed else Status.IGNORE_FAILED if ignored else Status.SUCCESS,
    )
    if not failed:
        # Of what a person let go by nobody knows how it ended.
        otherwise = execution.outcome or (Outcome.FAILED if ignored else "")
        shared.change(execution, outcome=Outcome.COMPLETED if _has_deployed(rows.all_steps) else otherwise)
    shared.save()


def _has_deployed(steps: Sequence[StepExecution]) -> bool:
    """Whether what was to be deployed was; what a person or a strategy waved through was not (P01).

    An ignored failure beside the deployment says nothing of it; without a deployment, any failure counts.
    """
    deploying = [name for name, kind in get_step_kinds().items() if kind.changes_ecs_service]
    deployments = [
        step
        for step in steps
        if step.section == StepExecution.Section.EXECUTION
        and step.type in deploying
        and not (step.status == Status.SKIPPED and step.failure is None)
    ]
    return all(step.failure is None for step in deployments or steps)


def _run_out_of_time(shared: ReconcileContext, step: StepExecution, row: ActionRun | None) -> None:
    """Fail, with what the action knows of the cause, unless one last look finds it done after all."""
    seen = _check_once_more(shared, row) if row is not None and row.start_done_at is not None else None
    if seen is not None and row is not None and seen.value is True:
        shared.change(step, timeout_at=shared.world.now() + LAST_CHECK_GRACE)
        _finish_check(shared, row, seen)
        return
    if seen is not None:
        seen.context.finish(keep_progress=True)
    cause = seen.value if seen is not None and isinstance(seen.value, ActionFailed) else None
    failures.fail_step(shared, step, row, _build_timeout_failure(step, cause))


def _check_once_more(shared: ReconcileContext, row: ActionRun) -> PhaseFinished | None:
    """What one last look sees; nothing where it cannot be made now: the time is over all the same."""
    end = run_phase(shared, row, "look", lambda action, context: action.last_look(context))
    return end if isinstance(end, PhaseFinished) else None


def _build_timeout_failure(step: StepExecution, cause: ActionFailed | None) -> ActionFailed:
    minutes = round(step.timeout_seconds / 60, 1)
    words = f"The step did not end within its time-out of {minutes:g} minutes."
    if cause is None:
        advice = "Raise timeout of the step if this is normal for the service."
        return ActionFailed("TIMED_OUT", f"{words} {advice}", outcome="TIMED_OUT")
    return ActionFailed(
        cause.code,
        f"{words} {cause.message}",
        outcome="TIMED_OUT",
        container=cause.container,
        exit_code=cause.exit_code,
    )
