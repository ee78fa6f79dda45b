"""Messages for people, rendered from the document of an event: title, text, severity and key."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final, TypeVar

from notifications.escaping import collapse_whitespace, escape_for_chat, truncate_line
from notifications.events import EventType

Event = TypeVar("Event")
# A message of Discord has 2,000 characters, and the link comes last.
OUTPUT_LINES, DIGEST_LINES, LINE_CHARACTERS = 5, 8, 160
# PagerDuty keeps no more of a key.
KEY_CHARACTERS: Final = 255


class Severity(StrEnum):
    """Severity of a message."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"


_SEVERITIES: Final = {
    EventType.EXECUTION_STARTED: Severity.INFO,
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
    EventType.DELEGATE_UPGRADE_FAILED: Severity.ERROR,
    EventType.GIT_SYNC_FAILED: Severity.ERROR,
    EventType.GIT_SYNC_RECOVERED: Severity.SUCCESS,
    EventType.TEST: Severity.INFO,
    EventType.DIGEST: Severity.INFO,
}
# Events that end the alert of another one.
_RESOLUTIONS: Final = {
    EventType.DRIFT_GONE: EventType.DRIFT_FOUND,
    EventType.DELEGATE_CONNECTED: EventType.DELEGATE_DISCONNECTED,
    EventType.GIT_SYNC_RECOVERED: EventType.GIT_SYNC_FAILED,
}


@dataclass(frozen=True)
class Message:
    """A notification for people.

    `title` and `text` are one line each, `details` further ones, all without markup of chat tools. Messages
    about the same trouble share `key`; with `is_resolution` it is over.
    """

    title: str
    text: str
    details: tuple[str, ...]
    url: str
    severity: Severity
    key: str
    is_resolution: bool

    @property
    def body(self) -> str:
        """Return the text, the details and the link, in a line each."""
        return "\n".join([self.text, *self.details, self.url])


def build_message(document: Mapping[str, Any]) -> Message:
    """Return the message for the document of an event."""
    event = EventType(document["event"])
    return Message(
        title=f"Slipway: {event.label}",
        text=document["text"],
        details=tuple(_list_details(document)),
        url=document.get("action_url") or document["url"],
        severity=_get_severity(event, document),
        key=_build_key(event, document),
        is_resolution=event in _RESOLUTIONS,
    )


def select_most_severe(events: Sequence[Event], most: int, get_type: Callable[[Event], str]) -> list[Event]:
    """Return at most `most` events in their order; those of a lower severity are left out first."""
    ranks = [_rank_severity(_SEVERITIES[EventType(get_type(event))]) for event in events]
    places = sorted(range(len(events)), key=ranks.__getitem__, reverse=True)[:most]
    return [events[place] for place in sorted(places)]


def _get_severity(event: EventType, document: Mapping[str, Any]) -> Severity:
    """Return the severity of an event, or the highest one of a digest's events."""
    severities = [_SEVERITIES[EventType(each["event"])] for each in document.get("events", ())]
    return max(severities, key=_rank_severity) if severities else _SEVERITIES[event]


def _rank_severity(severity: Severity) -> int:
    return list(Severity).index(severity)


def _list_details(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the events of a digest, people, the faults of a commit, and the last lines of the container.

    Documents of the release before lack these fields.
    """
    if events := document.get("events"):
        listed = select_most_severe(events, DIGEST_LINES, itemgetter("event"))
        yield from (f"• {_format_line(each['text'])}" for each in listed)
    if started_by := document.get("started_by"):
        yield _format_line(f"Started by {started_by}")
    if approved_by := document.get("approved_by"):
        yield _format_line(f"Approved by {', '.join(approved_by)}")
    if git_sync := document.get("git_sync"):
        yield from _list_faults(git_sync)
    if last_output := document.get("last_output"):
        yield "Last output of the container:"
        yield from (f"│ {_format_line(line)}" for line in last_output[-OUTPUT_LINES:])


def _list_faults(git_sync: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commit of a Git sync, and its first faults with their places."""
    if commit := git_sync["commit"]:
        yield f"Commit {commit[:12]}"
    for fault in git_sync["faults"][:DIGEST_LINES]:
        place = f"{fault['file']}, line {fault['line']}: " if fault["line"] else ""
        yield f"• {_format_line(place + fault['message'])}"


def _format_line(text: str) -> str:
    return truncate_line(escape_for_chat(collapse_whitespace(text)), LINE_CHARACTERS)


def _build_key(event: EventType, document: Mapping[str, Any]) -> str:
    """Return the key of the trouble: its execution, its delegate, or the page of its drift or Git sync."""
    kind = _RESOLUTIONS.get(event, event)
    # Only the page tells ECS services of one name, or Git syncs of one name, apart.
    page = document["url"] if kind in (EventType.DRIFT_FOUND, EventType.GIT_SYNC_FAILED) else ""
    subject = document["execution"] or document["delegate"] or page or document["id"]
    key = f"slipway/{document['scope']}/{kind}/{subject}"
    # Cut, keys of a scope with long identifiers would be the same.
    return key if len(key) <= KEY_CHARACTERS else f"slipway/{kind}/{sha256(key.encode()).hexdigest()}"
