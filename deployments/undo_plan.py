"""What rolling an execution back would undo, newest change first, before anybody decides (P05)."""

from typing import Any

from deployments.actions.base import Action, UnknownActionError, load_action
from deployments.engine.memories import EarlierStep
from deployments.models import ActionRun, Call, Execution, StageExecution, StepExecution
from deployments.states import TERMINAL, ActionState, CallState, Status, UndoState
from deployments.steps.base import step_kind

_SENT = (CallState.SENT, CallState.UNKNOWN, CallState.PLANNED)
_NOTHING = "This execution has changed nothing that a rollback would undo."
_NOWHERE = (
    "The stage has no rollback step for this: nothing would be undone, and what was changed stays. "
    "Add the step under rollbackSteps of the pipeline for the next run."
)


def undo_plan(execution: Execution) -> dict[str, Any]:
    """The changes that a rollback would undo, in its order, in words; `note` says why there are none."""
    changes, is_left = [], False
    for stage in _stages_of(execution):
        order, others = _order(stage)
        changes += [change for step in order for change in _changes(step)]
        is_left = is_left or any(_changes(step) for step in others)
    return {"changes": changes, "note": "" if changes else _NOWHERE if is_left else _NOTHING}


def _stages_of(execution: Execution) -> list[StageExecution]:
    """The stage that is open; of an execution that is over, every stage that began, the newest first."""
    stages = list(execution.stages.order_by("-position"))
    if execution.is_over:
        return [stage for stage in stages if stage.status != Status.SKIPPED]
    return [stage for stage in reversed(stages) if stage.status not in TERMINAL][:1]


def _order(stage: StageExecution) -> tuple[list[StepExecution], list[StepExecution]]:
    """The begun steps in the order in which they would be undone, and those that no rollback step undoes."""
    steps = list(stage.steps.order_by("position"))
    rollback = [step.type for step in steps if step.section == StepExecution.Section.ROLLBACK]
    begun = [step for step in steps if step.section == StepExecution.Section.EXECUTION and step.started_at]
    order = [
        step for type_ in rollback for step in reversed(begun) if step_kind(step.type).undone_by == type_
    ]
    return order, [step for step in begun if step not in order]


def _changes(step: StepExecution) -> list[dict[str, Any]]:
    known = EarlierStep(step)
    rows = step.actions.exclude(state__in=(ActionState.WAITING, ActionState.SKIPPED, ActionState.UNDONE))
    found: list[dict[str, Any]] = []
    for row in rows.order_by("-position"):
        if row.undo_state == UndoState.SETTLED and row.state != ActionState.NOT_RESTORED:
            continue
        found += _changes_of(row, step, known)
    return found


def _changes_of(row: ActionRun, step: StepExecution, known: EarlierStep) -> list[dict[str, Any]]:
    states = set(
        Call.objects.filter(
            action=row, attempt__gte=row.first_attempt, phase__startswith="start", is_write=True
        ).values_list("state", flat=True)
    )
    is_certain = CallState.ANSWERED in states
    if not is_certain and not states & set(_SENT):
        return []
    try:
        action = load_action(row.name, row.version, row.parameters)
    except UnknownActionError as unknown:
        words: tuple[str, ...] = (f"{row.title}: {unknown}",)
    else:
        words = _words(action, known)
    return [
        {
            "stage": step.stage.identifier,
            "step": step.identifier,
            "action": row.title,
            "words": one,
            "certain": is_certain,
        }
        for one in words
    ]


def _words(action: Action, known: EarlierStep) -> tuple[str, ...]:
    return action.undo_words(known) if action.has_undo else ()
