"""Decisions that a person can take about a waiting step."""

from typing import Any

from deployments.models import Interrupt, StepExecution
from steps.actions.waits import WAITS_UNTIL
from steps.kinds.approval import APPROVAL_TYPE
from steps.states import ActionState, Status

TOO_LATE_MESSAGE = "This decision is no longer required."
InterruptKind = Interrupt.Kind
_FAILURE_DECISIONS = (
    InterruptKind.RETRY,
    InterruptKind.SKIP,
    InterruptKind.IGNORE,
    InterruptKind.MARK_AS_SUCCESS,
    InterruptKind.MARK_AS_FAILURE,
    InterruptKind.ROLL_BACK,
    InterruptKind.ABORT,
)
# Permission to decide about failures does not replace approvers.
_BYPASSING_DECISIONS = (InterruptKind.SKIP, InterruptKind.IGNORE, InterruptKind.MARK_AS_SUCCESS)
# The key of the action that an intervention of a rollback step is about.
UNDO_KEY = "undo"
RESTORED = "RESTORED"
# After a restore from a backup, only these are possible (rule 18).
RESTORE_DECISIONS = (InterruptKind.GO_ON, InterruptKind.END_UNCHANGED)
# These end an execution, so they require the permission to abort it.
STOPPING_DECISIONS = (InterruptKind.ABORT, InterruptKind.ROLL_BACK, InterruptKind.END_UNCHANGED)
DECISIONS = tuple(str(kind.value) for kind in (*_FAILURE_DECISIONS, *RESTORE_DECISIONS))
_CHOICES: dict[str, tuple[str, ...]] = {
    "FAILED": _FAILURE_DECISIONS,
    "STUCK": _FAILURE_DECISIONS,
    "STUCK_BACKWARD": (InterruptKind.RETRY, InterruptKind.IGNORE),
    "NOT_RESTORED": (InterruptKind.RETRY, InterruptKind.IGNORE, InterruptKind.ABORT),
    RESTORED: RESTORE_DECISIONS,
}


def list_choices(step: StepExecution) -> tuple[str, ...]:
    """Return the decisions that are possible for this step now.

    A step that waits for AWS may be skipped if its last action has finished its writes. Otherwise a skip
    could leave a write with an unknown result; such a step can be aborted.
    """
    choices: tuple[str, ...] = (InterruptKind.SKIP,) if _is_waiting(step) else ()
    if step.intervention is not None:
        choices = _CHOICES.get(step.intervention["kind"], ())
    if step.type != APPROVAL_TYPE:
        return choices
    return tuple(choice for choice in choices if choice not in _BYPASSING_DECISIONS)


def _is_waiting(step: StepExecution) -> bool:
    if step.status != Status.ASYNC_WAITING or step.section != StepExecution.Section.EXECUTION:
        return False
    if step.retry_at is not None:
        return True
    open_rows = [row for row in step.actions.all() if row.state == ActionState.STARTED]
    return bool(open_rows) and all(row.start_done_at is not None for row in open_rows)


def build_intervention_document(step: StepExecution) -> dict[str, Any] | None:
    """Return the document of an intervention, or None."""
    choices = list_choices(step)
    if step.intervention is None and not choices:
        return None
    until = step.outputs.get(WAITS_UNTIL)
    intervention = step.intervention or {
        "kind": "WAITING",
        "requested_at": None,
        "until": until,
        "on_timeout": None,
    }
    internal = ("before_restore", UNDO_KEY)
    document = {name: value for name, value in intervention.items() if name not in internal}
    return {"taken_at": None, **document, "choices": list(choices)}
