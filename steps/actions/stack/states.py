"""The states of stacks: which of them are ends, which are good, and what each of the others asks for."""

from collections.abc import Mapping

GONE = "DELETE_COMPLETE"
FAILED_CREATION = "ROLLBACK_COMPLETE"
GOOD = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
UPDATABLE = (*GOOD, "UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE")
WENT_BACK = "UPDATE_ROLLBACK_COMPLETE"
STUCK_GOING_BACK = "UPDATE_ROLLBACK_FAILED"

_HELP: Mapping[str, str] = {
    "CREATE_FAILED": "It was made without a way back and is in pieces: delete it, then run again.",
    "DELETE_FAILED": "Some of its resources could not be deleted: see to those and delete it again.",
    "ROLLBACK_FAILED": "Some of its resources could not be deleted: see to those and delete the stack.",
    "REVIEW_IN_PROGRESS": "A change set waits to be executed, and the stack is empty: execute or delete it.",
    STUCK_GOING_BACK: "Its last update could not be taken back: mend what its events name, then continue the "
    "rollback of the update in CloudFormation.",
}


def is_over(status: str) -> bool:
    """Whether nothing more happens by itself."""
    return bool(status) and not status.endswith("_IN_PROGRESS")


def help_for(status: str) -> str:
    """What to do about a stack in this state."""
    return _HELP.get(status, "Look at it in CloudFormation.")
