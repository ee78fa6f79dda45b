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


def list_partner_steps(shared: ReconcileContext, step: StepExecution) -> list[StepExecution]:
    """The steps that this rollback step undoes, newest first."""
    begun = (one for one in shared.rows.steps_of(shared.stage) if one.started_at is not None)
    undone = [one for one in begun if is_undone_by_step(step.type, step.spec, one.type, one.spec)]
    return undone[::-1]


def get_next_undo(shared: ReconcileContext, step: StepExecution) -> ActionRun | None:
    """The action that this rollback step undoes now; None once all is undone."""
    rows = (row for partner in list_partner_steps(shared, step) for row in list_open_actions(shared, partner))
    return next(rows, None)


def list_open_actions(shared: ReconcileContext, partner: StepExecution) -> list[ActionRun]:
    """The actions of a step that have begun and are not settled, newest first."""
    not_begun = (ActionState.WAITING, ActionState.SKIPPED)
    rows = shared.rows.actions_of(partner)
    return [row for row in rows[::-1] if row.state not in not_begun and row.undo_state != UndoState.SETTLED]


def list_writes(shared: ReconcileContext, row: ActionRun) -> list[AwsCall]:
    """What this run of the action has written, or was about to."""
    return [
        call
        for call in shared.rows.calls_of_action(row)
        if call.is_write and call.attempt >= row.first_attempt and call.phase.startswith("start")
    ]


def get_undo_phase(name: str, row: ActionRun) -> str:
    """Each try of an undo has a journal of its own."""
    return f"{name}{row.undo_attempts + 1}"


DECISION_TIMEOUT = timedelta(hours=1)


def abandon_undo(
    shared: ReconcileContext, step: StepExecution, row: ActionRun, why: str, *, asks: bool = False
) -> None:
    """Go on without it, unless a person has to decide: it asks, or what comes next could cut off users."""
    append_log(shared, step, f"Not restored: {row.title}. {why}", "error", ROLLBACK_UNIT)
    shared.change(row, detail=why[:512])
    if asks or read_action(row).moves_traffic:
        until = shared.world.now() + DECISION_TIMEOUT
        failures.request_intervention(shared, step, "NOT_RESTORED", until=until, then="LeaveRest")
    else:
        skip_undo(shared, row)


def skip_undo(shared: ReconcileContext, row: ActionRun) -> None:
    """Leave one action as it is; inside a commit."""
    shared.change(row, undo_state=UndoState.SETTLED, state=ActionState.NOT_RESTORED)


def skip_remaining_undos(shared: ReconcileContext, step: StepExecution, why: str = "") -> None:
    """Leave all that this rollback step has not undone yet as it is; inside a commit."""
    for partner in list_partner_steps(shared, step):
        for row in list_open_actions(shared, partner):
            _skip_undo_if_needed(shared, row, why)


def _skip_undo_if_needed(shared: ReconcileContext, row: ActionRun, why: str) -> None:
    name = row.name
    has_undo = get_actions()[name].has_undo if name in get_actions() else True
    # Where nothing was written there is nothing that stays behind.
    changed = has_undo and _may_have_written(shared, row)
    state = ActionState.NOT_RESTORED if changed else ActionState(row.state)
    shared.change(row, undo_state=UndoState.SETTLED, state=state, detail=(why or row.detail)[:512])


def _may_have_written(shared: ReconcileContext, row: ActionRun) -> bool:
    states = (CallState.SENT, CallState.UNKNOWN, CallState.ANSWERED)
    return any(call.state in states for call in list_writes(shared, row))


def reopen_undos(execution: Execution) -> None:
    """What the last rollback could not restore is tried once more, as new tries; inside a commit."""
    rows = ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED)
    for row in rows:
        row.undo_attempts = (row.undo_attempts // UNDO_TRIES + 1) * UNDO_TRIES
        row.undo_state, row.detail = UndoState.KNOWN, ""
        row.save(update_fields=["undo_attempts", "undo_state", "detail"])


def skip_superseded_undos(shared: ReconcileContext, step: StepExecution, failure: ChangedByOthers) -> None:
    """Somebody else deployed: nothing of this stage is touched any more (rule 12)."""
    with shared.commit(reload=True):
        append_log(shared, step, failure.message, "error", ROLLBACK_UNIT)
        skip_remaining_undos(shared, step, failure.message)
        shared.execution.outcome = Outcome.SUPERSEDED
        shared.execution.save(update_fields=["outcome"])


def advance_undo(shared: ReconcileContext, step: StepExecution, row: ActionRun) -> timedelta | None:
    """Learn what happened, ask whether it may be undone, undo it, look until that has taken hold."""
    if row.undo_state == "":
        return _confirm_start(shared, step, row)
    if row.undo_state == UndoState.KNOWN:
        return _check_undo_allowed(shared, step, row)
    if row.undo_state == UndoState.READY:
        return _run_undo(shared, step, row)
    return _check_undone(shared, step, row)


def _confirm_start(shared: ReconcileContext, step: StepExecution, row: ActionRun) -> timedelta | None:
    """Withdraw what is queued, then replay the start without sending, so that every answer is known."""
    shared.rows.forget_open_calls(row.step)
    calls = [call for call in shared.rows.calls_of_action(row) if call.is_write]
    if any(call.attempt == row.attempt and call.state == CallState.PLANNED for call in calls):
        planned = AwsCall.objects.filter(action=row, attempt=row.attempt, is_write=True)
        with shared.commit():
            planned.filter(state=CallState.PLANNED).update(state=CallState.NOT_SENT)
        shared.rows.forget_open_calls(row.step)
    if row.start_done_at is None and list_writes(shared, row):
        end = run_phase(shared, row, "start", _start, told_in=step, forbid_sending=True)
        if isinstance(end, PhaseWaiting):
            return end.time
        if isinstance(end, PhaseFinished):
            end.context.finish(keep_progress=False)
            shared.save()
    happened = any(call.state == CallState.ANSWERED for call in list_writes(shared, row))
    if not (happened and read_action(row).has_undo):
        # Nothing hangs on it: whoever asks again finds the same. Written by the next commit.
        shared.change(row, undo_state=UndoState.SETTLED)
        return None
    shared.change(row, undo_state=UndoState.KNOWN, state=ActionState.UNDOING)
    shared.save()
    return None


def _start(action: Action, context: StepContext) -> None:
    action.start(context)


def _check_undo_allowed(shared: ReconcileContext, step: StepExecution, row: ActionRun) -> timedelta | None:
    # Done once: the next look finds its answers in the journal and sends nothing.
    end = run_phase(shared, row, get_undo_phase("undo prepared", row), _prepare_undo, told_in=step)
    if isinstance(end, PhaseFinished):
        end.context.finish(keep_progress=False)
        shared.save()
        end = run_phase(shared, row, get_undo_phase("ask", row), _may_undo, told_in=step)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        # A read that is denied may be allowed soon; a cluster that has gone stays so.
        is_gone = end.failure.code == CLUSTER_NOT_FOUND
        return _handle_undo_failure(shared, step, row, end.failure, refuses=is_gone)
    assert isinstance(end, PhaseFinished)  # noqa: S101 - only replayed starts end otherwise
    if end.value:
        shared.change(row, undo_state=UndoState.READY, undo_started_at=shared.world.now())
    end.context.finish(keep_progress=True)
    shared.save()
    return None if end.value else timedelta(seconds=5)


def _prepare_undo(action: Action, context: StepContext) -> None:
    action.prepare_undo(context)


def _may_undo(action: Action, context: StepContext) -> bool:
    return action.may_undo(context)


def _run_undo(shared: ReconcileContext, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run_phase(shared, row, get_undo_phase("undo", row), _undo_action, told_in=step)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        return _handle_undo_failure(shared, step, row, end.failure, refuses=end.refuses)
    assert isinstance(end, PhaseFinished)  # noqa: S101
    shared.change(row, undo_state=UndoState.SENT, undo_started_at=shared.world.now())
    end.context.finish(keep_progress=False)
    end.context.drop_results()
    shared.save()
    return None


def _undo_action(action: Action, context: StepContext) -> None:
    action.undo(context)


def _check_undone(shared: ReconcileContext, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run_phase(shared, row, get_undo_phase("restored", row), _is_undone, told_in=step)
    if isinstance(end, PhaseWaiting):
        return end.time
    if isinstance(end, PhaseFailed):
        return _handle_undo_failure(shared, step, row, end.failure)
    assert isinstance(end, PhaseFinished)  # noqa: S101
    if end.value:
        shared.change(row, undo_state=UndoState.SETTLED, state=ActionState.UNDONE)
    end.context.finish(keep_progress=True)
    shared.save()
    if end.value:
        return None
    since = row.undo_started_at or shared.world.now()
    return wait_for_next_check(shared, end.context, since=since, deadline=step.timeout_at)


def _is_undone(action: Action, context: StepContext) -> bool:
    return action.is_undone(context)


def _handle_undo_failure(
    shared: ReconcileContext,
    step: StepExecution,
    row: ActionRun,
    failure: ActionFailed,
    *,
    refuses: bool = False,
) -> timedelta | None:
    if isinstance(failure, ChangedByOthers):
        skip_superseded_undos(shared, step, failure)
        return None
    asks = isinstance(failure, InterventionRequired)
    # Of a refusal that stands, the tries that are left are not made.
    tries = row.undo_attempts + (UNDO_TRIES - row.undo_attempts % UNDO_TRIES if refuses or asks else 1)
    shared.change(row, undo_attempts=tries, undo_state=UndoState.KNOWN)
    if tries % UNDO_TRIES == 0:
        with shared.commit(reload=True):
            abandon_undo(shared, step, row, failure.message, asks=asks)
        return None
    text = f"Undoing failed ({tries % UNDO_TRIES} of {UNDO_TRIES} tries): {failure.message}"
    append_log(shared, step, text, "warning", ROLLBACK_UNIT)
    shared.save()
    return timedelta(seconds=2 ** (tries % UNDO_TRIES))
