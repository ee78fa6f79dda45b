"""Messages for people, rendered from the document of an event: title, text, severity and key."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from notifications.events import EventType


class Severity(StrEnum):
    """Severity of a message."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"


_SEVERITIES: Final = {
    EventType.EXECUTION_FAILED: Severity.ERROR,
    EventType.EXECUTION_SUCCEEDED: Severity.SUCCESS,
    EventType.EXECUTION_ABORTED: Severity.WARNING,
    EventType.ROLLBACK_STARTED: Severity.ERROR,
    EventType.ROLLBACK_ENDED: Severity.WARNING,
    EventType.APPROVAL_WAITING: Severity.WARNING,
    EventType.INTERVENTION_WAITING: Severity.ERROR,
    EventType.DRIFT_FOUND: Severity.WARNING,
    EventType.DRIFT_GONE: Severity.SUCCESS,
    EventType.DELEGATE_DISCONNECTED: Severity.ERROR,
    EventType.DELEGATE_CONNECTED: Severity.SUCCESS,
    EventType.TEST: Severity.INFO,
}
# Events that end the alert of another one.
_RESOLUTIONS: Final = {
    EventType.DRIFT_GONE: EventType.DRIFT_FOUND,
    EventType.DELEGATE_CONNECTED: EventType.DELEGATE_DISCONNECTED,
}


@dataclass(frozen=True)
class Message:
    """A notification for people.

    `title` and `text` are one line each, without markup of chat tools. Messages about the same trouble share
    `key`; with `is_resolution` it is over.
    """

    title: str
    text: str
    url: str
    severity: Severity
    key: str
    is_resolution: bool

    @property
    def body(self) -> str:
        """Return the text and the link, in a line each."""
        return f"{self.text}\n{self.url}"


def build_message(document: Mapping[str, Any]) -> Message:
    """Return the message for the document of an event."""
    event = EventType(document["event"])
    return Message(
        title=f"Slipway: {event.label}",
        text=document["text"],
        url=document["url"],
        severity=_SEVERITIES[event],
        key=_build_key(event, document),
        is_resolution=event in _RESOLUTIONS,
    )


def _build_key(event: EventType, document: Mapping[str, Any]) -> str:
    """Return the key of the trouble: its execution, or its delegate or services."""
    subject = (
        document["execution"]
        or document["delegate"]
        or "/".join([*document["services"], *document["environments"]])
    )
    kind = _RESOLUTIONS.get(event, event)
    return f"slipway/{document['scope']}/{kind}/{subject or document['id']}"[:255]
