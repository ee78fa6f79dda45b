"""Plan of the undos of a rollback, newest change first."""

from typing import Any

from django.db.models import F

from deployments.engine.execution_rows import EarlierStepData
from deployments.execution.operations import find_execution_to_deploy
from deployments.models import ActionRun, AwsCall, Execution, StageExecution, StepExecution
from steps.actions.base import Action, UnknownActionError, load_action
from steps.kinds.registry import is_undone_by_step
from steps.states import TERMINAL_STATUSES, ActionState, CallState, Status, UndoState
from web.http.problems import Conflict

WriteStates = dict[int, set[str]]
_SENT = (CallState.SENT, CallState.UNKNOWN, CallState.PLANNED)
_NOTHING_TO_UNDO = "This execution has made no changes that a rollback would undo."
_NO_ROLLBACK_STEP = (
    "The stage has no matching rollback step, so changes are kept. Add the step under rollbackSteps of "
    "the pipeline for the next run."
)


def build_rollback_plan(execution: Execution) -> dict[str, Any]:
    """Return the undo plan; without changes if a rollback deploys an earlier execution or is not possible."""
    try:
        earlier = find_execution_to_deploy(execution) if execution.is_over else None
    except Conflict as problem:
        return {"changes": [], "note": problem.detail}
    if earlier is None:
        return build_undo_plan(execution)
    tag = earlier.artifact.get("tag", "")
    note = (
        "Newer executions have deployed this ECS service. A new execution deploys the version before this one"
    )
    return {"changes": [], "note": f"{note} again, with the tag {tag}."}


def build_undo_plan(execution: Execution) -> dict[str, Any]:
    """Return the changes that a rollback would undo, in its order, in words.

    `note` explains an empty plan.
    """
    write_states, changes, is_left = list_write_states(execution), [], False
    for stage in list_stages_to_undo(execution):
        order, other_steps = order_undos(stage)
        changes += [
            change | _add_condition((back.when or {}).get("condition") or "", change)
            for step, back in order
            for change in _list_changes(step, write_states)
        ]
        is_left = is_left or any(_list_changes(step, write_states) for step in other_steps)
    return {"changes": changes, "note": "" if changes else _NO_ROLLBACK_STEP if is_left else _NOTHING_TO_UNDO}


def list_write_states(execution: Execution) -> WriteStates:
    """Return the states of the writes of each action that count for its undo, by the key of its row."""
    rows = AwsCall.objects.filter(execution=execution, phase__startswith="start", is_write=True)
    states: WriteStates = {}
    for action, state in rows.filter(attempt__gte=F("action__first_attempt")).values_list("action", "state"):
        states.setdefault(action, set()).add(state)
    return states


def list_stages_to_undo(execution: Execution) -> list[StageExecution]:
    """Return the open stage; of a finished execution, every started stage, newest first."""
    stages = list(execution.stages.order_by("-position").prefetch_related("steps__actions"))
    if execution.is_over:
        return [stage for stage in stages if stage.status != Status.SKIPPED]
    return [stage for stage in reversed(stages) if stage.status not in TERMINAL_STATUSES][:1]


def order_undos(
    stage: StageExecution,
) -> tuple[list[tuple[StepExecution, StepExecution]], list[StepExecution]]:
    """Return the started steps with their undo, in undo order, and the steps without an undo."""
    steps = sorted(stage.steps.all(), key=lambda step: step.position)
    rollback = [step for step in steps if step.section == StepExecution.Section.ROLLBACK]
    begun = [step for step in steps if step.section == StepExecution.Section.EXECUTION and step.started_at]
    order: dict[int, tuple[StepExecution, StepExecution]] = {}
    for back in rollback:
        for step in reversed(begun):
            if is_undone_by_step(back.type, back.spec, step.type, step.spec):
                order.setdefault(step.pk, (step, back))
    return list(order.values()), [step for step in begun if step.pk not in order]


def _add_condition(condition: str, change: dict[str, Any]) -> dict[str, str]:
    return {"words": f"{change['words']}, if {condition}"} if condition else {}


def _list_changes(step: StepExecution, write_states: WriteStates) -> list[dict[str, Any]]:
    saved = EarlierStepData(step)
    return [
        change
        for row in list_open_undos(step)
        for change in _list_step_changes(row, step, saved, write_states.get(row.pk, set()))
    ]


def list_open_undos(step: StepExecution) -> list[ActionRun]:
    """Return the actions of a step whose changes a rollback may undo, newest first."""
    return [
        row
        for row in sorted(step.actions.all(), key=lambda row: -row.position)
        if row.state != ActionState.UNDONE
        and (row.undo_state != UndoState.SETTLED or row.state == ActionState.NOT_RESTORED)
    ]


def _list_step_changes(
    row: ActionRun, step: StepExecution, saved: EarlierStepData, states: set[str]
) -> list[dict[str, Any]]:
    is_certain = CallState.ANSWERED in states
    if not is_certain and not states & set(_SENT):
        return []
    try:
        action = load_action(row.name, row.version, row.parameters)
    except UnknownActionError as unknown:
        sentences: tuple[str, ...] = (f"{row.title}: {unknown}",)
    else:
        sentences = _describe_undo(action, saved)
    return [
        {
            "stage": step.stage.identifier,
            "step": step.identifier,
            "action": row.title,
            "words": sentence,
            "certain": is_certain,
        }
        for sentence in sentences
    ]


def _describe_undo(action: Action, saved: EarlierStepData) -> tuple[str, ...]:
    return action.describe_undo(saved) if action.has_undo else ()
