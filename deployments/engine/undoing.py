"""The undo of one action: learn what happened, ask whether it may be undone, undo it, look (rule 12)."""

from datetime import timedelta

from deployments.engine.leaving import give_up, leave_alone
from deployments.engine.running import CLUSTER_NOT_FOUND, Failed, Finished, Wait, load, park, run
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.engine.undo_rows import TRIES, UNIT, phase_of, writes_of
from deployments.models import ActionRun, Call, StepExecution
from steps.actions.base import Action, ActionFailed, AskFirst, NotOurs, Rollout
from steps.states import ActionState, CallState, UndoState


def take_back(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    """Learn what happened, ask whether it may be undone, undo it, look until that has taken hold."""
    if row.undo_state == "":
        return _find_out(shared, step, row)
    if row.undo_state == UndoState.KNOWN:
        return _ask(shared, step, row)
    if row.undo_state == UndoState.READY:
        return _put_back(shared, step, row)
    return _follow(shared, step, row)


def _find_out(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    """Withdraw what is queued, then replay the start without sending, so that every answer is known."""
    shared.rows.forget_open_calls(row.step)
    calls = [call for call in shared.rows.calls_of_action(row) if call.is_write]
    if any(call.attempt == row.attempt and call.state == CallState.PLANNED for call in calls):
        planned = Call.objects.filter(action=row, attempt=row.attempt, is_write=True)
        with shared.commit():
            planned.filter(state=CallState.PLANNED).update(state=CallState.NOT_SENT)
        shared.rows.forget_open_calls(row.step)
    if row.start_done_at is None and writes_of(shared, row):
        end = run(shared, row, "start", _start, told_in=step, forbid_sending=True)
        if isinstance(end, Wait):
            return end.time
        if isinstance(end, Finished):
            end.rollout.finish(keep_progress=False)
            shared.save()
    happened = any(call.state == CallState.ANSWERED for call in writes_of(shared, row))
    if not (happened and load(row).has_undo):
        # Nothing hangs on it: whoever asks again finds the same. Written by the next commit.
        shared.change(row, undo_state=UndoState.SETTLED)
        return None
    shared.change(row, undo_state=UndoState.KNOWN, state=ActionState.UNDOING)
    shared.save()
    return None


def _start(action: Action, rollout: Rollout) -> None:
    action.start(rollout)


def _ask(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    # Done once: the next look finds its answers in the journal and sends nothing.
    end = run(shared, row, phase_of("undo prepared", row), _prepare_undo, told_in=step)
    if isinstance(end, Finished):
        end.rollout.finish(keep_progress=False)
        shared.save()
        end = run(shared, row, phase_of("ask", row), _may_undo, told_in=step)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        # A read that is denied may be allowed soon; a cluster that has gone stays so.
        is_gone = end.failure.code == CLUSTER_NOT_FOUND
        return _failed(shared, step, row, end.failure, refuses=is_gone)
    assert isinstance(end, Finished)  # noqa: S101 - only replayed starts end otherwise
    if end.value:
        shared.change(row, undo_state=UndoState.READY, undo_started_at=shared.world.now())
    end.rollout.finish(keep_progress=True)
    shared.save()
    return None if end.value else timedelta(seconds=5)


def _prepare_undo(action: Action, rollout: Rollout) -> None:
    action.prepare_undo(rollout)


def _may_undo(action: Action, rollout: Rollout) -> bool:
    return action.may_undo(rollout)


def _put_back(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run(shared, row, phase_of("undo", row), _undo_action, told_in=step)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        return _failed(shared, step, row, end.failure, refuses=end.refuses)
    assert isinstance(end, Finished)  # noqa: S101
    shared.change(row, undo_state=UndoState.SENT, undo_started_at=shared.world.now())
    end.rollout.finish(keep_progress=False)
    end.rollout.drop_results()
    shared.save()
    return None


def _undo_action(action: Action, rollout: Rollout) -> None:
    action.undo(rollout)


def _follow(shared: Shared, step: StepExecution, row: ActionRun) -> timedelta | None:
    end = run(shared, row, phase_of("restored", row), _is_undone, told_in=step)
    if isinstance(end, Wait):
        return end.time
    if isinstance(end, Failed):
        return _failed(shared, step, row, end.failure)
    assert isinstance(end, Finished)  # noqa: S101
    if end.value:
        shared.change(row, undo_state=UndoState.SETTLED, state=ActionState.UNDONE)
    end.rollout.finish(keep_progress=True)
    shared.save()
    if end.value:
        return None
    since = row.undo_started_at or shared.world.now()
    return park(shared, end.rollout, since=since, deadline=step.timeout_at)


def _is_undone(action: Action, rollout: Rollout) -> bool:
    return action.is_undone(rollout)


def _failed(
    shared: Shared, step: StepExecution, row: ActionRun, failure: ActionFailed, *, refuses: bool = False
) -> timedelta | None:
    if isinstance(failure, NotOurs):
        leave_alone(shared, step, failure)
        return None
    asks = isinstance(failure, AskFirst)
    # Of a refusal that stands, the tries that are left are not made.
    tries = row.undo_tries + (TRIES - row.undo_tries % TRIES if refuses or asks else 1)
    shared.change(row, undo_tries=tries, undo_state=UndoState.KNOWN)
    if tries % TRIES == 0:
        with shared.commit(reload=True):
            give_up(shared, step, row, failure.message, asks=asks)
        return None
    text = f"Undoing failed ({tries % TRIES} of {TRIES} tries): {failure.message}"
    say(shared, step, text, "warning", UNIT)
    shared.save()
    return timedelta(seconds=2 ** (tries % TRIES))
