"""Execution of a stage: its steps in order, the actions of a step in order."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from deployments.approvals.requests import update_waiting_status
from deployments.engine import always_actions, failures, service_locks, transitions
from deployments.engine.action_phases import (
    PhaseFailed,
    PhaseFinished,
    PhaseWaiting,
    read_action,
    record_unannounced_change,
    run_phase,
    wait_for_next_check,
)
from deployments.engine.reconcile_context import ReconcileContext, append_log, run_next_step
from deployments.engine.steps import preconditions
from deployments.engine.steps.context import EngineStepContext
from deployments.engine.steps.retries import retry_step
from deployments.engine.steps.scheduler import ENDED_BADLY
from deployments.execution.events import notify_stage_start
from deployments.journal.callers import CHECK_PHASE
from deployments.journal.delegate_calls import describe_delegate_wait
from deployments.models import ActionRun, StepExecution
from pipelines.definition.deferred_expressions import resolve_spec
from steps import conditions
from steps.actions.base import Action, ActionFailed, get_actions
from steps.actions.context import StepContext
from steps.expressions import BadExpressionError
from steps.kinds.registry import BadStepError, get_step_kind, get_step_kinds, may_change_ecs_service
from steps.states import TERMINAL_STATUSES, ActionState, Outcome, Status, UndoState


class _CannotStart(Exception):
    """Invalid values in the spec of a step at its start."""


def start_step(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    """Start a step, or its next attempt."""
    rows = reconcile_context.rows.list_actions(step)
    try:
        preconditions.resolve_infrastructure(reconcile_context, step)
        if step.started_at is None and preconditions.skip_if_unmet(reconcile_context, step):
            return
        resolved_rows = _resolve_spec(reconcile_context, step, rows)
        failure = None
    except _CannotStart as error:
        resolved_rows, failure = [], ActionFailed("UNKNOWN_EXPRESSION", str(error))
    except ActionFailed as failed:
        resolved_rows, failure = [], failed
    except conditions.UnclearConditionError as error:
        resolved_rows, failure = [], build_condition_failure("step, or of a group around it,", str(error))
    now = reconcile_context.runtime.now()
    timeout_at = now + timedelta(seconds=step.timeout_seconds)
    reconcile_context.change(step, status=Status.RUNNING, started_at=now, timeout_at=timeout_at)
    if resolved_rows:
        reconcile_context.change(step, spec=step.spec, timeout_seconds=step.timeout_seconds)
    for row in resolved_rows:
        reconcile_context.change(row, parameters=row.parameters, title=row.title)
    reconcile_context.save()
    if failure is not None:
        failures.fail_step(reconcile_context, step, None, failure)


def build_condition_failure(subject: str, problem: str) -> ActionFailed:
    """Return the failure of a condition without a value."""
    return ActionFailed("UNCLEAR_CONDITION", f"The condition of the {subject} has no answer: {problem}")


def _resolve_spec(
    reconcile_context: ReconcileContext, step: StepExecution, rows: list[ActionRun]
) -> list[ActionRun]:
    """Resolve the spec with the values known now; return the changed actions, not yet written.

    After an action has started all stay unchanged: the journal has their calls. Raises `_CannotStart`.
    """
    if step.unresolved_spec is None or any(row.state != ActionState.WAITING for row in rows):
        return []
    kind = get_step_kind(step.type)
    try:
        values = reconcile_context.build_values()
        spec = {**step.spec, **resolve_spec(kind, step.unresolved_spec, values)}
        actions = [(unit.title, action) for unit in kind.build_units(spec) for action in unit.actions]
    except BadExpressionError as bad:
        raise _CannotStart(f"{'.'.join(map(str, bad.where))}: {bad.message}") from bad
    except BadStepError as bad:
        raise _CannotStart(str(bad)) from bad
    planned = [(unit, type(action).__name__, action.version) for unit, action in actions]
    if planned != [(row.unit, row.name, row.version) for row in rows]:
        raise _CannotStart(
            "With the values that are known now, the step would do other things than were planned. "
            "An expression that decides what a step does must be known when the run starts."
        )
    step.timeout_seconds += kind.planned_wait_seconds(spec) - kind.planned_wait_seconds(step.spec)
    step.spec = spec
    for row, (_, action) in zip(rows, actions, strict=True):
        row.parameters, row.title = action.parameters(), action.title
    return rows


# Extra time for the answers of a final check, and for the rest of a step whose final check succeeded.
LAST_CHECK_GRACE = timedelta(minutes=1)


def start_stage(reconcile_context: ReconcileContext) -> None:
    """Start a stage, or skip it if its condition says so."""
    now = reconcile_context.runtime.now()
    try:
        reason, problem = preconditions.get_skip_reason(reconcile_context), ""
    except conditions.UnclearConditionError as unclear:
        reason, problem = "", str(unclear)
    if reason:
        preconditions.skip_stage(reconcile_context, reason)
        return
    execution = reconcile_context.execution
    is_first = execution.started_at is None
    reconcile_context.change(reconcile_context.stage, status=Status.RUNNING)
    reconcile_context.change(execution, status=Status.RUNNING, started_at=execution.started_at or now)
    with reconcile_context.commit():
        notify_stage_start(execution, reconcile_context.mask, is_first=is_first)
    if problem:
        first = reconcile_context.rows.list_section_steps(reconcile_context.stage)[0]
        failures.fail_step(reconcile_context, first, None, build_condition_failure("stage", problem))


def advance_stage(reconcile_context: ReconcileContext) -> timedelta | None:
    """Advance the next of the current steps; None means continue immediately."""
    # Tasks and suspended scaling of an ended step do not wait for the end of the execution.
    unfinished = always_actions.list_unfinished_steps(reconcile_context)
    current = [*unfinished, *always_actions.list_current_steps(reconcile_context, unfinished)]
    if not current:
        _end_stage(reconcile_context)
        return None
    return run_next_step(reconcile_context, current, _advance_step)


def _advance_step(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    if step.status in TERMINAL_STATUSES:
        always_action = always_actions.get_next_always_action(reconcile_context, [step])
        return (
            always_actions.advance_always_action(reconcile_context, always_action) if always_action else None
        )
    if step.status == Status.QUEUED:
        return _start_or_wait(reconcile_context, step)
    if step.retry_at is not None:
        return _retry_after_pause(reconcile_context, step, step.retry_at)
    if (step.intervention or {}).get("kind") == "FAILED":
        return failures.check_intervention(reconcile_context, step)
    row = _get_next_action(reconcile_context, step)
    if service_locks.is_waiting_for_lock(reconcile_context, step):
        return _acquire_lock(reconcile_context, step, row)
    if row is None:
        # All is done, even if the timeout has passed since a crash.
        _end_step(reconcile_context, step)
        return None
    if _is_out_of_time(reconcile_context, step, row):
        return _handle_timeout(reconcile_context, step, row)
    return advance_action(reconcile_context, row)


def _start_or_wait(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    """Start a step; one whose spec only another version of Slipway can resolve waits for its worker."""
    if step.unresolved_spec is None or step.type in get_step_kinds():
        start_step(reconcile_context, step)
        return None
    if step.first_line is None:
        text = (
            f"Step {step.name} waits. Only another version of Slipway can start a step of type {step.type}."
        )
        append_log(reconcile_context, step, text, "warning")
        reconcile_context.save()
    return failures.INTERVENTION_CHECK_INTERVAL


def _acquire_lock(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun | None
) -> timedelta | None:
    """Acquire the service locks of the step; its timeout does not run while it waits."""
    try:
        return (
            None if service_locks.acquire_lock(reconcile_context, step) else service_locks.LOCK_RETRY_INTERVAL
        )
    except ActionFailed as failure:
        failures.fail_step(reconcile_context, step, row, failure)
        return None


def _is_out_of_time(reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun) -> bool:
    """Return whether the step has timed out and no action handles the timeout itself."""
    if step.timeout_at is None or reconcile_context.runtime.now() < step.timeout_at:
        return False
    action = get_actions().get(row.name)
    return action is None or not action.watches_timeout


def advance_action(reconcile_context: ReconcileContext, row: ActionRun) -> timedelta | None:
    """Start an action, or check whether it is done."""
    if row.state == ActionState.WAITING:
        reconcile_context.change(row, state=ActionState.STARTED, started_at=reconcile_context.runtime.now())
    if row.start_done_at is None:
        end = run_phase(reconcile_context, row, "start", _start)
    elif row.writes_made < row.writes_requested:
        end = run_phase(reconcile_context, row, f"start {row.writes_requested}", _write)
    else:
        end = run_phase(reconcile_context, row, CHECK_PHASE, _is_done)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        failures.fail_step(reconcile_context, row.step, row, end.failure)
        return None
    assert isinstance(end, PhaseFinished)  # noqa: S101 - a start that may send never ends as PhaseNeverSent
    if row.start_done_at is None:
        return _finish_start(reconcile_context, row, end.context)
    if row.writes_made < row.writes_requested:
        _finish_write(reconcile_context, row, end.context)
        return None
    return _finish_check(reconcile_context, row, end)


def _start(action: Action, context: StepContext) -> None:
    action.start(context)


def _is_done(action: Action, context: StepContext) -> bool:
    return action.is_done(context)


def _write(action: Action, context: StepContext) -> None:
    action.write(context)


def _finish_start(
    reconcile_context: ReconcileContext, row: ActionRun, context: EngineStepContext
) -> timedelta | None:
    now = reconcile_context.runtime.now()
    reconcile_context.change(row, start_done_at=now)
    context.finish(keep_progress=False)
    context.drop_results()
    reconcile_context.save()
    return (
        wait_for_next_check(reconcile_context, context, since=now, deadline=row.step.timeout_at)
        if context.waits_for_service
        else None
    )


def _finish_write(reconcile_context: ReconcileContext, row: ActionRun, context: EngineStepContext) -> None:
    """Record that the requested write is made; the next check follows immediately."""
    reconcile_context.change(row, writes_made=row.writes_requested)
    context.finish(keep_progress=False)
    context.drop_results()
    reconcile_context.save()


def _finish_check(
    reconcile_context: ReconcileContext, row: ActionRun, end: PhaseFinished
) -> timedelta | None:
    now = reconcile_context.runtime.now()
    record_unannounced_change(reconcile_context, row, end.context)
    if end.value:
        reconcile_context.change(row, state=ActionState.DONE, ended_at=now)
        _settle_superseded_undos(reconcile_context, row)
    if end.context.is_write_requested:
        reconcile_context.change(row, writes_requested=row.writes_requested + 1)
    end.context.finish(keep_progress=True)
    status = Status.RUNNING if end.value else end.context.waiting_status
    if status == Status.APPROVAL_WAITING:
        with reconcile_context.commit():
            update_waiting_status(reconcile_context, row.step, status)
    elif row.step.status != status and row.step.status not in TERMINAL_STATUSES:
        reconcile_context.change(row.step, status=status)
    if end.value:
        reconcile_context.save()
        return None
    if end.context.is_write_requested:
        # What the write does is decided for good before it is made.
        reconcile_context.save()
        return None
    # The result of this check is written when the pass ends, or by the next commit.
    if end.context.decision_deadline is not None:
        return min(end.context.decision_deadline - now, failures.INTERVENTION_CHECK_INTERVAL)
    return wait_for_next_check(
        reconcile_context, end.context, since=row.start_done_at or now, deadline=row.step.timeout_at
    )


def _settle_superseded_undos(reconcile_context: ReconcileContext, row: ActionRun) -> None:
    """Settle the undos that this action has made unnecessary."""
    types = read_action(row).supersedes_undo_of
    if types:
        for step in reconcile_context.rows.list_section_steps(reconcile_context.stage, row.step.section):
            if step.type in types and step.position < row.step.position:
                for action in reconcile_context.rows.list_actions(step):
                    reconcile_context.change(action, undo_state=UndoState.SETTLED)


def _get_next_action(reconcile_context: ReconcileContext, step: StepExecution) -> ActionRun | None:
    done = (ActionState.DONE, ActionState.SKIPPED)
    return next((row for row in reconcile_context.rows.list_actions(step) if row.state not in done), None)


def _retry_after_pause(
    reconcile_context: ReconcileContext, step: StepExecution, at: datetime
) -> timedelta | None:
    """Retry the step after its pause; return the remaining pause."""
    if (remaining := at - reconcile_context.runtime.now()) > timedelta(0):
        return remaining
    with reconcile_context.commit(reload=True):
        retry_step(step)
        append_log(
            reconcile_context, step, f"Trying step {step.name} again: attempt {step.attempt}", "warning"
        )
    return None


def _end_step(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    reconcile_context.change(step, status=Status.SUCCESS, retries=0, ended_at=reconcile_context.runtime.now())
    reconcile_context.save()


def _end_stage(reconcile_context: ReconcileContext) -> None:
    rows, stage, execution = reconcile_context.rows, reconcile_context.stage, reconcile_context.execution
    failed_steps = [step for step in rows.list_section_steps(stage) if step.status in ENDED_BADLY]
    if failed_steps:
        # A step was marked as failure, and the steps that run after a failure have run.
        with reconcile_context.commit(reload=True):
            transitions.skip_later_stages(reconcile_context, Status(failed_steps[0].status))
            transitions.set_final_status(reconcile_context, Status(failed_steps[0].status))
        return
    if any(other_stage.position > stage.position for other_stage in rows.stages):
        failures.close_stage(reconcile_context, Status.SUCCESS)
        return
    ignored = any(step.status == Status.IGNORE_FAILED for step in rows.all_steps)
    failed = next((other_stage for other_stage in rows.stages if other_stage.status in ENDED_BADLY), None)
    if failed is not None and stage.status not in TERMINAL_STATUSES:
        # This stage ran because an earlier one failed.
        reconcile_context.change(stage, status=Status.SUCCESS)
    reconcile_context.change(
        execution,
        final_status=failed.status if failed else Status.IGNORE_FAILED if ignored else Status.SUCCESS,
    )
    if not failed:
        # The result of an ignored or skipped step is unknown.
        fallback = execution.outcome or (Outcome.FAILED if ignored else "")
        reconcile_context.change(
            execution, outcome=Outcome.COMPLETED if _has_deployed(rows.all_steps) else fallback
        )
    reconcile_context.save()


def _has_deployed(steps: Sequence[StepExecution]) -> bool:
    """Return whether all deployments succeeded; ignored and skipped ones did not (P01).

    An ignored failure of another step does not matter; without a deployment, any failure does.
    """
    deployments = [
        step
        for step in steps
        if step.section == StepExecution.Section.EXECUTION
        and may_change_ecs_service(step.type)
        and not (step.status == Status.SKIPPED and step.failure is None)
    ]
    return all(step.failure is None for step in deployments or steps)


def _handle_timeout(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun
) -> timedelta | None:
    """Fail the step with the action's cause, unless a final check finds it done; return the check's wait."""
    cause = None
    if row.start_done_at is not None:
        end = run_phase(
            reconcile_context, row, CHECK_PHASE, lambda action, context: action.check_at_timeout(context)
        )
        if isinstance(end, PhaseWaiting) and _may_wait_for_final_check(reconcile_context, step, end.time):
            return end.time
        if isinstance(end, PhaseFailed):
            # The action has failed by itself, as in any other check.
            failures.fail_step(reconcile_context, step, row, end.failure)
            return None
        if isinstance(end, PhaseFinished) and end.value is True:
            reconcile_context.change(step, timeout_at=reconcile_context.runtime.now() + LAST_CHECK_GRACE)
            _finish_check(reconcile_context, row, end)
            return None
        if isinstance(end, PhaseFinished):
            end.context.finish(keep_progress=True)
            cause = end.value if isinstance(end.value, ActionFailed) else None
    if cause is None and (reason := describe_delegate_wait(step)):
        cause = ActionFailed("NO_DELEGATE", reason)
    failures.fail_step(reconcile_context, step, row, build_timeout_failure(step, cause))
    return None


def _may_wait_for_final_check(
    reconcile_context: ReconcileContext, step: StepExecution, wait: timedelta | None
) -> bool:
    """Return whether the final check may still end, such as with an answer of a delegate."""
    if step.timeout_at is None:
        return False
    next_check = reconcile_context.runtime.now() + (wait or timedelta(0))
    return next_check < step.timeout_at + LAST_CHECK_GRACE


def build_timeout_failure(step: StepExecution, cause: ActionFailed | None) -> ActionFailed:
    """Return the failure of a step at its timeout, with the action's cause if it knows one."""
    minutes = round(step.timeout_seconds / 60, 1)
    sentence = f"The step did not end within its time-out of {minutes:g} minutes."
    if cause is None:
        advice = "Raise timeout of the step if this is normal for the service."
        return ActionFailed("TIMED_OUT", f"{sentence} {advice}", outcome="TIMED_OUT")
    return ActionFailed(
        cause.code,
        f"{sentence} {cause.message}",
        outcome="TIMED_OUT",
        container=cause.container,
        exit_code=cause.exit_code,
        last_output=cause.last_output,
        advice=cause.advice,
    )
