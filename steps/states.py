"""States of executions, actions, undos and calls (REQUIREMENTS 4.3, DESIGN 5)."""

from django.db.models import TextChoices


class Status(TextChoices):
    """Status of an execution, a stage or a step."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    ASYNC_WAITING = "ASYNC_WAITING"
    APPROVAL_WAITING = "APPROVAL_WAITING"
    INTERVENTION_WAITING = "INTERVENTION_WAITING"
    INPUT_WAITING = "INPUT_WAITING"
    PAUSED = "PAUSED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    ABORTED = "ABORTED"
    EXPIRED = "EXPIRED"
    SKIPPED = "SKIPPED"
    APPROVAL_REJECTED = "APPROVAL_REJECTED"
    IGNORE_FAILED = "IGNORE_FAILED"


TERMINAL_STATUSES = (
    Status.SUCCESS,
    Status.FAILED,
    Status.ABORTED,
    Status.EXPIRED,
    Status.SKIPPED,
    Status.APPROVAL_REJECTED,
    Status.IGNORE_FAILED,
    Status.ROLLED_BACK,
)
OPEN_STATUSES = tuple(status for status in Status if status not in TERMINAL_STATUSES)

# Statuses that a retry in the same execution accepts.
RETRYABLE_STATUSES = (Status.FAILED, Status.ABORTED, Status.EXPIRED, Status.APPROVAL_REJECTED)


class Outcome(TextChoices):
    """Outcome of an ECS deployment (P01)."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ROLLED_BACK_BY_AWS = "ROLLED_BACK_BY_AWS"
    ROLLED_BACK = "ROLLED_BACK"
    TIMED_OUT = "TIMED_OUT"
    SUPERSEDED = "SUPERSEDED"
    ABORTED = "ABORTED"


class ActionState(TextChoices):
    """State of an action, forward and in a rollback."""

    WAITING = "WAITING"
    STARTED = "STARTED"
    DONE = "DONE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    UNDOING = "UNDOING"
    UNDONE = "UNDONE"
    NOT_RESTORED = "NOT_RESTORED"


class UndoState(TextChoices):
    """Progress of an action's undo (DESIGN 5, rule 12)."""

    KNOWN = "KNOWN"
    """The effects of the action are known, and there is something to undo."""
    READY = "READY"
    """A check allowed the undo."""
    SENT = "SENT"
    """The undo was sent; checks follow until it has taken effect."""
    SETTLED = "SETTLED"
    """Nothing is left to undo."""


class CallState(TextChoices):
    """State of an AWS call in the journal (DESIGN 5, rules 6 and 7)."""

    PLANNED = "PLANNED"
    SENT = "SENT"
    ANSWERED = "ANSWERED"
    FAILED = "FAILED"
    NOT_SENT = "NOT_SENT"
    UNKNOWN = "UNKNOWN"
