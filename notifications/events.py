"""Event types that rules subscribe to, and the event as a value."""

from dataclasses import dataclass
from typing import Final

from django.db.models import TextChoices

from rbac.models import Scope


class EventType(TextChoices):
    """Types of events; the values are a published interface: never rename one."""

    EXECUTION_FAILED = "execution.failed", "An execution failed"
    EXECUTION_SUCCEEDED = "execution.succeeded", "An execution succeeded"
    EXECUTION_ABORTED = "execution.aborted", "An execution was aborted"
    ROLLBACK_STARTED = "rollback.started", "A rollback started"
    ROLLBACK_ENDED = "rollback.ended", "A rollback put everything back"
    APPROVAL_WAITING = "approval.waiting", "An approval waits"
    INTERVENTION_WAITING = "intervention.waiting", "A failed step needs a person"
    DRIFT_FOUND = "drift.found", "Drift was found"
    DRIFT_GONE = "drift.gone", "Drift is gone"
    DELEGATE_DISCONNECTED = "delegate.disconnected", "A delegate disconnected"
    DELEGATE_CONNECTED = "delegate.connected", "A delegate connected"
    TEST = "test", "Test"


# Events for rules; a test is only sent manually.
SUBSCRIBABLE_EVENTS: Final = tuple(
    (event.value, event.label) for event in EventType if event != EventType.TEST
)


@dataclass(frozen=True)
class NotificationEvent:
    """Event for notification rules; `path` is the URL path of its page.

    `text` is one sentence. No field may contain a secret: output of programs is redacted before.
    """

    event: EventType
    scope: Scope
    text: str
    path: str
    status: str = ""
    cause: str = ""
    pipeline: str = ""
    execution: str = ""
    services: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    delegate: str = ""
