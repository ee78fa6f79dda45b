"""The rows of a rollback: which actions a rollback step takes back, and what they have written."""

from deployments.engine.shared import Shared
from deployments.models import ActionRun, Call, StepExecution
from steps.kinds.base import takes_back
from steps.states import ActionState, UndoState

TRIES = 3
UNIT = "Rollback"


def partners(shared: Shared, step: StepExecution) -> list[StepExecution]:
    """The steps that this rollback step undoes, newest first."""
    begun = (one for one in shared.rows.steps_of(shared.stage) if one.started_at is not None)
    undone = [one for one in begun if takes_back(step.type, step.spec, one.type, one.spec)]
    return undone[::-1]


def next_undo(shared: Shared, step: StepExecution) -> ActionRun | None:
    """The action that this rollback step undoes now; None once all is undone."""
    rows = (row for partner in partners(shared, step) for row in open_rows(shared, partner))
    return next(rows, None)


def open_rows(shared: Shared, partner: StepExecution) -> list[ActionRun]:
    """The actions of a step that have begun and are not settled, newest first."""
    not_begun = (ActionState.WAITING, ActionState.SKIPPED)
    rows = shared.rows.actions_of(partner)
    return [row for row in rows[::-1] if row.state not in not_begun and row.undo_state != UndoState.SETTLED]


def writes_of(shared: Shared, row: ActionRun) -> list[Call]:
    """What this run of the action has written, or was about to."""
    return [
        call
        for call in shared.rows.calls_of_action(row)
        if call.is_write and call.attempt >= row.first_attempt and call.phase.startswith("start")
    ]


def phase_of(name: str, row: ActionRun) -> str:
    """Each try of an undo has a journal of its own."""
    return f"{name}{row.undo_tries + 1}"
