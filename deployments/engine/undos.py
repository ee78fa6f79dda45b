"""Undos of single actions: their rows, their tries, and the actions a rollback skips."""

from datetime import timedelta

from deployments.engine import failures
from deployments.engine.action_phases import (
    CLUSTER_NOT_FOUND,
    PhaseFailed,
    PhaseFinished,
    PhaseWaiting,
    read_action,
    run_phase,
    wait_for_next_check,
)
from deployments.engine.execution_rows import UNDO_TRIES
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.models import ActionRun, AwsCall, Execution, StepExecution
from steps.actions.base import Action, ActionFailed, ChangedByOthers, InterventionRequired, get_actions
from steps.actions.context import StepContext
from steps.kinds.registry import is_undone_by_step
from steps.states import ActionState, CallState, Outcome, UndoState

ROLLBACK_UNIT = "Rollback"


def list_partner_steps(reconcile_context: ReconcileContext, step: StepExecution) -> list[StepExecution]:
    """Return the steps that this rollback step undoes, newest first."""
    begun = (
        one for one in reconcile_context.rows.steps_of(reconcile_context.stage) if one.started_at is not None
    )
    undone = [one for one in begun if is_undone_by_step(step.type, step.spec, one.type, one.spec)]
    return undone[::-1]


def get_next_undo(reconcile_context: ReconcileContext, step: StepExecution) -> ActionRun | None:
    """Return the action that this rollback step undoes now; None once all is undone."""
    rows = (
        row
        for partner in list_partner_steps(reconcile_context, step)
        for row in list_open_actions(reconcile_context, partner)
    )
    return next(rows, None)


def list_open_actions(reconcile_context: ReconcileContext, partner: StepExecution) -> list[ActionRun]:
    """Return the actions of a step that have begun and are not settled, newest first."""
    not_begun = (ActionState.WAITING, ActionState.SKIPPED)
    rows = reconcile_context.rows.actions_of(partner)
    return [row for row in rows[::-1] if row.state not in not_begun and row.undo_state != UndoState.SETTLED]


def list_writes(reconcile_context: ReconcileContext, row: ActionRun) -> list[AwsCall]:
    """What this run of the action has written, or was about to."""
    return [
        call
        for call in reconcile_context.rows.calls_of_action(row)
        if call.is_write and call.attempt >= row.first_attempt and call.phase.startswith("start")
    ]


def get_undo_phase(name: str, row: ActionRun) -> str:
    """Return each try of an undo has a journal of its own."""
    return f"{name}{row.undo_attempts + 1}"


DECISION_TIMEOUT = timedelta(hours=1)


def abandon_undo(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun, why: str, *, asks: bool = False
) -> None:
    """Go on without it, unless a person has to decide: it asks, or what comes next could cut off users."""
    append_log(reconcile_context, step, f"Not restored: {row.title}. {why}", "error", ROLLBACK_UNIT)
    reconcile_context.change(row, detail=why[:512])
    if asks or read_action(row).moves_traffic:
        until = reconcile_context.runtime.now() + DECISION_TIMEOUT
        failures.request_intervention(reconcile_context, step, "NOT_RESTORED", until=until, then="LeaveRest")
    else:
        skip_undo(reconcile_context, row)


def skip_undo(reconcile_context: ReconcileContext, row: ActionRun) -> None:
    """Leave one action as it is; inside a commit."""
    reconcile_context.change(row, undo_state=UndoState.SETTLED, state=ActionState.NOT_RESTORED)


def skip_remaining_undos(reconcile_context: ReconcileContext, step: StepExecution, why: str = "") -> None:
    """Leave all that this rollback step has not undone yet as it is; inside a commit."""
    for partner in list_partner_steps(reconcile_context, step):
        for row in list_open_actions(reconcile_context, partner):
            _skip_undo_if_needed(reconcile_context, row, why)


def _skip_undo_if_needed(reconcile_context: ReconcileContext, row: ActionRun, why: str) -> None:
    name = row.name
    has_undo = get_actions()[name].has_undo if name in get_actions() else True
    # Where nothing was written there is nothing that stays behind.
    changed = has_undo and _may_have_written(reconcile_context, row)
    state = ActionState.NOT_RESTORED if changed else ActionState(row.state)
    reconcile_context.change(row, undo_state=UndoState.SETTLED, state=state, detail=(why or row.detail)[:512])


def _may_have_written(reconcile_context: ReconcileContext, row: ActionRun) -> bool:
    states = (CallState.SENT, CallState.UNKNOWN, CallState.ANSWERED)
    return any(call.state in states for call in list_writes(reconcile_context, row))


def reopen_undos(execution: Execution) -> None:
    """What the last rollback could not restore is tried once more, as new tries; inside a commit."""
    rows = ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED)
    for row in rows:
        row.undo_attempts = (row.undo_attempts // UNDO_TRIES + 1) * UNDO_TRIES
        row.undo_state, row.detail = UndoState.KNOWN, ""
        row.save(update_fields=["undo_attempts", "undo_state", "detail"])


def skip_superseded_undos(
    reconcile_context: ReconcileContext, step: StepExecution, failure: ChangedByOthers
) -> None:
    """Somebody else deployed: nothing of this stage is touched any more (rule 12)."""
    with reconcile_context.commit(reload=True):
        append_log(reconcile_context, step, failure.message, "error", ROLLBACK_UNIT)
        skip_remaining_undos(reconcile_context, step, failure.message)
        reconcile_context.execution.outcome = Outcome.SUPERSEDED
        reconcile_context.execution.save(update_fields=["outcome"])


def advance_undo(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun
) -> timedelta | None:
    """Learn what happened, ask whether it may be undone, undo it, look until that has taken hold."""
    if row.undo_state == "":
        return _confirm_start(reconcile_context, step, row)
    if row.undo_state == UndoState.KNOWN:
        return _check_undo_allowed(reconcile_context, step, row)
    if row.undo_state == UndoState.READY:
        return _run_undo(reconcile_context, step, row)
    return _check_undone(reconcile_context, step, row)


def _confirm_start(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun
) -> timedelta | None:
    """Withdraw what is queued, then replay the start without sending, so that every answer is known."""
    reconcile_context.rows.forget_open_calls(row.step)
    calls = [call for call in reconcile_context.rows.calls_of_action(row) if call.is_write]
    if any(call.attempt == row.attempt and call.state == CallState.PLANNED for call in calls):
        planned = AwsCall.objects.filter(action=row, attempt=row.attempt, is_write=True)
        with reconcile_context.commit():
            planned.filter(state=CallState.PLANNED).update(state=CallState.NOT_SENT)
        reconcile_context.rows.forget_open_calls(row.step)
    if row.start_done_at is None and list_writes(reconcile_context, row):
        end = run_phase(reconcile_context, row, "start", _start, log_step=step, forbid_sending=True)
        if isinstance(end, PhaseWaiting):
            return end.time
        if isinstance(end, PhaseFinished):
            end.context.finish(keep_progress=False)
            reconcile_context.save()
    happened = any(call.state == CallState.ANSWERED for call in list_writes(reconcile_context, row))
    if not (happened and read_action(row).has_undo):
        # Nothing hangs on it: whoever asks again finds the same. Written by the next commit.
        reconcile_context.change(row, undo_state=UndoState.SETTLED)
        return None
    reconcile_context.change(row, undo_state=UndoState.KNOWN, state=ActionState.UNDOING)
    reconcile_context.save()
    return None


def _start(action: Action, context: StepContext) -> None:
    action.start(context)


def _check_undo_allowed(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun
) -> timedelta | None:
    # Done once: the next pass finds its answers in the journal and sends nothing.
    end = run_phase(
        reconcile_context, row, get_undo_phase("undo prepared", row), _prepare_undo, log_step=step
    )
    if isinstance(end, PhaseFinished):
        end.context.finish(keep_progress=False)
        reconcile_context.save()
        end = run_phase(reconcile_context, row, get_undo_phase("ask", row), _may_undo, log_step=step)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        # A read that is denied may be allowed soon; a cluster that has gone stays so.
        is_gone = end.failure.code == CLUSTER_NOT_FOUND
        return _handle_undo_failure(reconcile_context, step, row, end.failure, refuses=is_gone)
    assert isinstance(end, PhaseFinished)  # noqa: S101 - only replayed starts end otherwise
    if end.value:
        reconcile_context.change(
            row, undo_state=UndoState.READY, undo_started_at=reconcile_context.runtime.now()
        )
    end.context.finish(keep_progress=True)
    reconcile_context.save()
    return None if end.value else timedelta(seconds=5)


def _prepare_undo(action: Action, context: StepContext) -> None:
    action.prepare_undo(context)


def _may_undo(action: Action, context: StepContext) -> bool:
    return action.may_undo(context)


def _run_undo(reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run_phase(reconcile_context, row, get_undo_phase("undo", row), _undo_action, log_step=step)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        return _handle_undo_failure(reconcile_context, step, row, end.failure, refuses=end.refuses)
    assert isinstance(end, PhaseFinished)  # noqa: S101
    reconcile_context.change(row, undo_state=UndoState.SENT, undo_started_at=reconcile_context.runtime.now())
    end.context.finish(keep_progress=False)
    end.context.drop_results()
    reconcile_context.save()
    return None


def _undo_action(action: Action, context: StepContext) -> None:
    action.undo(context)


def _check_undone(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun
) -> timedelta | None:
    end = run_phase(reconcile_context, row, get_undo_phase("restored", row), _is_undone, log_step=step)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        return _handle_undo_failure(reconcile_context, step, row, end.failure)
    assert isinstance(end, PhaseFinished)  # noqa: S101
    if end.value:
        reconcile_context.change(row, undo_state=UndoState.SETTLED, state=ActionState.UNDONE)
    end.context.finish(keep_progress=True)
    reconcile_context.save()
    if end.value:
        return None
    since = row.undo_started_at or reconcile_context.runtime.now()
    return wait_for_next_check(reconcile_context, end.context, since=since, deadline=step.timeout_at)


def _is_undone(action: Action, context: StepContext) -> bool:
    return action.is_undone(context)


def _handle_undo_failure(
    reconcile_context: ReconcileContext,
    step: StepExecution,
    row: ActionRun,
    failure: ActionFailed,
    *,
    refuses: bool = False,
) -> timedelta | None:
    if isinstance(failure, ChangedByOthers):
        skip_superseded_undos(reconcile_context, step, failure)
        return None
    asks = isinstance(failure, InterventionRequired)
    # Of a refusal that stands, the tries that are left are not made.
    tries = row.undo_attempts + (UNDO_TRIES - row.undo_attempts % UNDO_TRIES if refuses or asks else 1)
    reconcile_context.change(row, undo_attempts=tries, undo_state=UndoState.KNOWN)
    if tries % UNDO_TRIES == 0:
        with reconcile_context.commit(reload=True):
            abandon_undo(reconcile_context, step, row, failure.message, asks=asks)
        return None
    text = f"Undoing failed ({tries % UNDO_TRIES} of {UNDO_TRIES} tries): {failure.message}"
    append_log(reconcile_context, step, text, "warning", ROLLBACK_UNIT)
    reconcile_context.save()
    return timedelta(seconds=2 ** (tries % UNDO_TRIES))
