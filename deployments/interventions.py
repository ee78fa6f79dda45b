"""What a person can decide about a step: by what it waits for, and where that is safe."""

from typing import Any

from deployments.models import Interrupt, StepExecution
from steps.actions.waiting import UNTIL
from steps.kinds.approval import APPROVAL
from steps.states import ActionState, Status

LATE = "Nothing waits for this decision any more."
Kind = Interrupt.Kind
_ABOUT_A_FAILURE = (
    Kind.RETRY,
    Kind.SKIP,
    Kind.IGNORE,
    Kind.MARK_AS_SUCCESS,
    Kind.MARK_AS_FAILURE,
    Kind.ROLL_BACK,
    Kind.ABORT,
)
# Who may decide about failures may not do so in place of those who were asked to approve.
_AROUND = (Kind.SKIP, Kind.IGNORE, Kind.MARK_AS_SUCCESS)
DECISIONS = tuple(str(kind.value) for kind in _ABOUT_A_FAILURE)
_CHOICES: dict[str, tuple[str, ...]] = {
    "FAILED": _ABOUT_A_FAILURE,
    "STUCK": _ABOUT_A_FAILURE,
    "STUCK_BACKWARD": (Kind.RETRY, Kind.IGNORE),
    "NOT_RESTORED": (Kind.RETRY, Kind.IGNORE, Kind.ABORT),
}


def choices_of(step: StepExecution) -> tuple[str, ...]:
    """What can be decided about this step now.

    A step that waits for AWS may be skipped where its last action has done all that it does and only looks.
    Elsewhere a skip could leave a write whose end nobody knows behind it; such a step can be aborted.
    """
    if step.intervention is not None:
        choices = _CHOICES.get(step.intervention["kind"], ())
        return tuple(one for one in choices if one not in _AROUND) if step.type == APPROVAL else choices
    return (Kind.SKIP,) if _only_waits(step) else ()


def _only_waits(step: StepExecution) -> bool:
    if step.status != Status.ASYNC_WAITING or step.section != StepExecution.Section.EXECUTION:
        return False
    if step.retry_at is not None:
        return True
    open_rows = [row for row in step.actions.all() if row.state == ActionState.STARTED]
    return bool(open_rows) and all(row.start_done_at is not None for row in open_rows)


def intervention_document(step: StepExecution) -> dict[str, Any] | None:
    """What a step waits for a person with, as a page draws it."""
    choices = choices_of(step)
    if step.intervention is None and not choices:
        return None
    until = step.outputs.get(UNTIL)
    asked = step.intervention or {"kind": "WAITING", "asked_at": None, "until": until, "on_timeout": None}
    return {**asked, "choices": list(choices)}
