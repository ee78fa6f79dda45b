"""Undos of single actions: their phases, attempts and results."""

from datetime import timedelta

from deployments.engine import failures
from deployments.engine.action_phases import (
    CLUSTER_NOT_FOUND,
    PhaseFailed,
    PhaseFinished,
    PhaseWaiting,
    run_phase,
    wait_for_next_check,
)
from deployments.engine.execution_rows import UNDO_TRIES
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.journal.callers import build_unsent_state
from deployments.models import ActionRun, AwsCall, Execution, StepExecution
from steps.actions.base import Action, ActionFailed, ChangedByOthers, InterventionRequired, get_actions
from steps.actions.context import StepContext
from steps.kinds.registry import is_undone_by_step
from steps.states import ActionState, CallState, Outcome, UndoState

ROLLBACK_UNIT = "Rollback"
_UNSTARTED = (ActionState.WAITING, ActionState.SKIPPED)


def list_partner_steps(reconcile_context: ReconcileContext, step: StepExecution) -> list[StepExecution]:
    """Return the steps that this rollback step undoes, newest first."""
    started = (
        candidate
        for candidate in reconcile_context.rows.list_section_steps(reconcile_context.stage)
        if candidate.started_at is not None
    )
    undone = [
        candidate
        for candidate in started
        if is_undone_by_step(step.type, step.spec, candidate.type, candidate.spec)
    ]
    return undone[::-1]


def get_next_undo(reconcile_context: ReconcileContext, step: StepExecution) -> ActionRun | None:
    """Return the action that this rollback step undoes now; None if all are undone."""
    rows = (
        row
        for partner in list_partner_steps(reconcile_context, step)
        for row in list_open_actions(reconcile_context, partner)
    )
    return next(rows, None)


def list_open_actions(reconcile_context: ReconcileContext, partner: StepExecution) -> list[ActionRun]:
    """Return the started actions of a step whose undos are not settled, newest first.

    An action that was to be repeated, and was not, is one of them with the writes of earlier attempts.
    """
    rows = reconcile_context.rows.list_actions(partner)
    return [
        row
        for row in rows[::-1]
        if row.undo_state != UndoState.SETTLED
        and (row.state not in _UNSTARTED or _may_have_written(reconcile_context, row))
    ]


def list_writes(reconcile_context: ReconcileContext, row: ActionRun) -> list[AwsCall]:
    """Return the writes of this run of the action, including unsent ones."""
    return [
        call
        for call in reconcile_context.rows.list_action_calls(row)
        if call.is_write and call.attempt >= row.first_attempt and call.phase.startswith("start")
    ]


def get_undo_phase(name: str, row: ActionRun) -> str:
    """Return the phase of the current attempt of the undo; each attempt has its own calls."""
    return f"{name}{row.undo_attempts + 1}"


DECISION_TIMEOUT = timedelta(hours=1)


def abandon_undo(
    reconcile_context: ReconcileContext,
    step: StepExecution,
    row: ActionRun,
    reason: str,
    *,
    needs_decision: bool = False,
) -> None:
    """Give up the undo; request a decision if needed, or if the next undos could cut off users."""
    append_log(reconcile_context, step, f"Not restored: {row.title}. {reason}", "error", ROLLBACK_UNIT)
    reconcile_context.change(row, detail=reconcile_context.mask.mask_text(reason)[:512])
    if needs_decision or _may_move_traffic(row):
        until = reconcile_context.runtime.now() + DECISION_TIMEOUT
        failures.request_intervention(
            reconcile_context, step, "NOT_RESTORED", until=until, then="LeaveRest", undo=row
        )
    else:
        skip_undo(reconcile_context, row)


def _may_move_traffic(row: ActionRun) -> bool:
    action = get_actions().get(row.name)
    return action is None or action.moves_traffic


def _may_have_undo(row: ActionRun) -> bool:
    """Return whether an action has an undo; one of another version of Slipway may have one (rule 15)."""
    action = get_actions().get(row.name)
    return action is None or action.has_undo


def skip_undo(reconcile_context: ReconcileContext, row: ActionRun) -> None:
    """Leave one action undone; inside a commit."""
    reconcile_context.change(row, undo_state=UndoState.SETTLED, state=ActionState.NOT_RESTORED)


def skip_remaining_undos(reconcile_context: ReconcileContext, step: StepExecution, reason: str = "") -> None:
    """Skip all undos that this rollback step has not finished; inside a commit."""
    for partner in list_partner_steps(reconcile_context, step):
        for row in list_open_actions(reconcile_context, partner):
            _settle_undo(reconcile_context, row, reason)


def _settle_undo(reconcile_context: ReconcileContext, row: ActionRun, reason: str) -> None:
    # An action without a write leaves nothing behind.
    has_effect = _may_have_undo(row) and _may_have_written(reconcile_context, row)
    state = ActionState.NOT_RESTORED if has_effect else ActionState(row.state)
    detail = reconcile_context.mask.mask_text(reason)[:512] if reason else row.detail
    reconcile_context.change(row, undo_state=UndoState.SETTLED, state=state, detail=detail)


def _may_have_written(reconcile_context: ReconcileContext, row: ActionRun) -> bool:
    states = (CallState.SENT, CallState.UNKNOWN, CallState.ANSWERED)
    return any(call.state in states for call in list_writes(reconcile_context, row))


def _has_unknown_write(reconcile_context: ReconcileContext, row: ActionRun) -> bool:
    states = (CallState.SENT, CallState.UNKNOWN)
    return any(call.state in states for call in list_writes(reconcile_context, row))


def reopen_undos(execution: Execution) -> None:
    """Reopen the failed undos of the last rollback as new attempts; inside a commit."""
    rows = ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED)
    for row in rows:
        row.undo_attempts = (row.undo_attempts // UNDO_TRIES + 1) * UNDO_TRIES
        # Without an end of the start, its writes may still be unknown.
        row.undo_state, row.detail = UndoState.KNOWN if row.start_done_at else "", ""
        row.save(update_fields=["undo_attempts", "undo_state", "detail"])


def skip_superseded_undos(
    reconcile_context: ReconcileContext, step: StepExecution, failure: ChangedByOthers
) -> None:
    """Skip all undos of the stage because somebody else deployed (rule 12)."""
    with reconcile_context.commit(reload=True):
        append_log(reconcile_context, step, failure.message, "error", ROLLBACK_UNIT)
        skip_remaining_undos(reconcile_context, step, failure.message)
        reconcile_context.execution.outcome = Outcome.SUPERSEDED
        reconcile_context.execution.save(update_fields=["outcome"])


def advance_undo(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun
) -> timedelta | None:
    """Advance the undo: confirm the start, check whether it is allowed, run it, check its effect."""
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
    """Withdraw queued writes, then replay the start without sending, so that every answer is known."""
    reconcile_context.rows.reload_open_calls(row.step)
    calls = [call for call in reconcile_context.rows.list_action_calls(row) if call.is_write]
    if any(call.attempt == row.attempt and call.state == CallState.PLANNED for call in calls):
        planned = AwsCall.objects.filter(action=row, attempt=row.attempt, is_write=True)
        with reconcile_context.commit():
            planned.filter(state=CallState.PLANNED).update(state=build_unsent_state())
        reconcile_context.rows.reload_open_calls(row.step)
    is_started = row.state not in _UNSTARTED and row.start_done_at is None
    if is_started and list_writes(reconcile_context, row):
        end = run_phase(reconcile_context, row, "start", _start, log_step=step, forbid_sending=True)
        if isinstance(end, PhaseWaiting):
            return end.time
        if isinstance(end, PhaseFinished):
            end.context.finish(keep_progress=False)
            reconcile_context.save()
        if isinstance(end, PhaseFailed) and end.failure.code != Outcome.SUPERSEDED:
            reconcile_context.rows.reload_open_calls(row.step)
            if _has_unknown_write(reconcile_context, row):
                with reconcile_context.commit(reload=True):
                    abandon_undo(reconcile_context, step, row, end.failure.message)
                return None
    has_effect = any(call.state == CallState.ANSWERED for call in list_writes(reconcile_context, row))
    if not (has_effect and _may_have_undo(row)):
        # Written by the next commit: a repetition gives the same result.
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
    # Runs once: the next pass replays its answers from the journal.
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
        # A denied read may be allowed soon; a deleted cluster stays deleted.
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
    needs_decision = isinstance(failure, InterventionRequired)
    # A permanent refusal uses up the remaining attempts.
    attempts = row.undo_attempts + (
        UNDO_TRIES - row.undo_attempts % UNDO_TRIES if refuses or needs_decision else 1
    )
    reconcile_context.change(row, undo_attempts=attempts, undo_state=UndoState.KNOWN)
    if attempts % UNDO_TRIES == 0:
        with reconcile_context.commit(reload=True):
            abandon_undo(reconcile_context, step, row, failure.message, needs_decision=needs_decision)
        return None
    text = f"Undoing failed ({attempts % UNDO_TRIES} of {UNDO_TRIES} tries): {failure.message}"
    append_log(reconcile_context, step, text, "warning", ROLLBACK_UNIT)
    reconcile_context.save()
    return timedelta(seconds=2 ** (attempts % UNDO_TRIES))
