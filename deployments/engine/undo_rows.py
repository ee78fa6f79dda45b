"""The rows of a rollback: which actions a rollback step takes back, and what they have written."""

from django.db.models import QuerySet

from deployments.engine.shared import Shared
from deployments.models import ActionRun, Call, StepExecution
from deployments.states import ActionState, UndoState
from deployments.steps.base import takes_back

TRIES = 3
UNIT = "Rollback"


def partners(shared: Shared, step: StepExecution) -> list[StepExecution]:
    """The steps that this rollback step undoes, newest first."""
    begun = shared.stage.steps.filter(section=StepExecution.Section.EXECUTION).exclude(started_at=None)
    return [
        one for one in begun.order_by("-position") if takes_back(step.type, step.spec, one.type, one.spec)
    ]


def next_undo(shared: Shared, step: StepExecution) -> ActionRun | None:
    """The action that this rollback step undoes now; None once all is undone."""
    for partner in partners(shared, step):
        open_rows = partner.actions.exclude(state__in=(ActionState.WAITING, ActionState.SKIPPED))
        row: ActionRun | None = (
            open_rows.exclude(undo_state=UndoState.SETTLED)
            .select_related("step")
            .order_by("-position")
            .first()
        )
        if row is not None:
            return row
    return None


def writes_of(row: ActionRun) -> QuerySet[Call]:
    """What this run of the action has written, or was about to."""
    return Call.objects.filter(
        action=row, attempt__gte=row.first_attempt, phase__startswith="start", is_write=True
    )


def phase_of(name: str, row: ActionRun) -> str:
    """Each try of an undo has a journal of its own."""
    return f"{name}{row.undo_tries + 1}"


def change(shared: Shared, row: ActionRun, **values: object) -> None:
    """Change the row of an action that is undone; inside a commit."""
    shared.change(row, **values)
    row.save(update_fields=[*shared.touched(row)])
