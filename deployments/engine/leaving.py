"""What a rollback leaves as it is: because it cannot, because nobody decided, because it is not ours."""

from datetime import timedelta

from deployments.engine import reacting
from deployments.engine.running import load
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.engine.undo_rows import TRIES, UNIT, open_rows, partners, writes_of
from deployments.models import ActionRun, Execution, StepExecution
from steps.actions.base import NotOurs, known_actions
from steps.states import ActionState, CallState, Outcome, UndoState

DECIDE_WITHIN = timedelta(hours=1)


def give_up(shared: Shared, step: StepExecution, row: ActionRun, why: str, *, asks: bool = False) -> None:
    """Go on without it, unless a person has to decide: it asks, or what comes next could cut off users."""
    say(shared, step, f"Not restored: {row.title}. {why}", "error", UNIT)
    shared.change(row, detail=why[:512])
    if asks or load(row).moves_traffic:
        until = shared.world.now() + DECIDE_WITHIN
        reacting.ask(shared, step, "NOT_RESTORED", until=until, then="LeaveRest")
    else:
        leave(shared, row)


def leave(shared: Shared, row: ActionRun) -> None:
    """Leave one action as it is; inside a commit."""
    shared.change(row, undo_state=UndoState.SETTLED, state=ActionState.NOT_RESTORED)


def leave_rest(shared: Shared, step: StepExecution, why: str = "") -> None:
    """Leave all that this rollback step has not undone yet as it is; inside a commit."""
    for partner in partners(shared, step):
        for row in open_rows(shared, partner):
            _leave_unless_needless(shared, row, why)


def _leave_unless_needless(shared: Shared, row: ActionRun, why: str) -> None:
    name = row.name
    has_undo = known_actions()[name].has_undo if name in known_actions() else True
    # Where nothing was written there is nothing that stays behind.
    changed = has_undo and _may_have_written(shared, row)
    state = ActionState.NOT_RESTORED if changed else ActionState(row.state)
    shared.change(row, undo_state=UndoState.SETTLED, state=state, detail=(why or row.detail)[:512])


def _may_have_written(shared: Shared, row: ActionRun) -> bool:
    states = (CallState.SENT, CallState.UNKNOWN, CallState.ANSWERED)
    return any(call.state in states for call in writes_of(shared, row))


def reopen(execution: Execution) -> None:
    """What the last rollback could not restore is tried once more, as new tries; inside a commit."""
    rows = ActionRun.objects.filter(step__stage__execution=execution, state=ActionState.NOT_RESTORED)
    for row in rows:
        row.undo_tries = (row.undo_tries // TRIES + 1) * TRIES
        row.undo_state, row.detail = UndoState.KNOWN, ""
        row.save(update_fields=["undo_tries", "undo_state", "detail"])


def leave_alone(shared: Shared, step: StepExecution, failure: NotOurs) -> None:
    """Somebody else deployed: nothing of this stage is touched any more (rule 12)."""
    with shared.commit(reload=True):
        say(shared, step, failure.message, "error", UNIT)
        leave_rest(shared, step, failure.message)
        shared.execution.outcome = Outcome.SUPERSEDED
        shared.execution.save(update_fields=["outcome"])
