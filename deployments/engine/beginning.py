"""How a step begins: its time runs, and what its spec names by then is filled in."""

from datetime import timedelta

from deployments.engine import failing, filling, judging
from deployments.engine.shared import Shared
from deployments.models import ActionRun, StepExecution
from pipelines.completion.deferred_expressions import filled_in
from steps import conditions
from steps.actions.base import ActionFailed
from steps.expressions import BadExpressionError
from steps.kinds.base import BadStepError, step_kind
from steps.states import ActionState, Status


class _CannotBegin(Exception):
    """What a step names does not come to something that it can do."""


def begin_step(shared: Shared, step: StepExecution) -> None:
    """The first look at a step, or at its next attempt."""
    rows = shared.rows.actions_of(step)
    try:
        filling.settle_place(shared, step)
        if step.started_at is None and judging.is_skipped(shared, step):
            return
        filled = _fill_in(shared, step, rows)
        trouble = None
    except _CannotBegin as cannot:
        filled, trouble = [], ActionFailed("UNKNOWN_EXPRESSION", str(cannot))
    except ActionFailed as unplaced:
        filled, trouble = [], unplaced
    except conditions.UnclearConditionError as cannot:
        filled, trouble = [], unclear("step, or of a group around it,", str(cannot))
    now = shared.world.now()
    timeout_at = now + timedelta(seconds=step.timeout_seconds)
    shared.change(step, status=Status.RUNNING, started_at=now, timeout_at=timeout_at)
    if filled:
        shared.change(step, spec=step.spec, timeout_seconds=step.timeout_seconds)
    for row in filled:
        shared.change(row, parameters=row.parameters, title=row.title)
    shared.save()
    if trouble is not None:
        failing.fail(shared, step, None, trouble)


def unclear(what: str, trouble: str) -> ActionFailed:
    """What is said where a condition has no answer."""
    return ActionFailed("UNCLEAR_CONDITION", f"The condition of the {what} has no answer: {trouble}")


def _fill_in(shared: Shared, step: StepExecution, rows: list[ActionRun]) -> list[ActionRun]:
    """Fill in what is known only now; the actions whose parameters change with it, still to be written.

    Once an action has begun, all stay as they are: the journal holds what they sent. Raises `_CannotBegin`.
    """
    if step.unfilled is None or any(row.state != ActionState.WAITING for row in rows):
        return []
    kind = step_kind(step.type)
    try:
        values = shared.known_values()
        spec = {**step.spec, **filled_in(kind, step.unfilled, values)}
        actions = [(unit.title, action) for unit in kind.units(spec) for action in unit.actions]
    except BadExpressionError as bad:
        raise _CannotBegin(f"{'.'.join(map(str, bad.where))}: {bad.message}") from bad
    except BadStepError as bad:
        raise _CannotBegin(str(bad)) from bad
    now = [(unit, type(action).__name__, action.version) for unit, action in actions]
    if now != [(row.unit, row.name, row.version) for row in rows]:
        raise _CannotBegin(
            "With the values that are known now, the step would do other things than were planned. "
            "An expression that decides what a step does must be known when the run starts."
        )
    step.timeout_seconds += kind.seconds_on_purpose(spec) - kind.seconds_on_purpose(step.spec)
    step.spec = spec
    for row, (_, action) in zip(rows, actions, strict=True):
        row.parameters, row.title = action.parameters(), action.title
    return rows
