"""Reasons why background work waits, for pages and the API; apps above register what they know."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

# Header of a Celery message with the time at which it was sent, in seconds.
SENT_AT_HEADER: Final = "slipway_sent_at"
# Pages and programs ask again every few seconds, each for itself.
CACHE_DURATION: Final = timedelta(seconds=2)


class DelayCode(StrEnum):
    """Kinds of reasons; the values are public and must not change."""

    BROKER_UNAVAILABLE = "BROKER_UNAVAILABLE"
    DISPATCHER_SILENT = "DISPATCHER_SILENT"
    WORKER_SILENT = "WORKER_SILENT"
    QUEUE_BACKLOG = "QUEUE_BACKLOG"
    AWS_THROTTLED = "AWS_THROTTLED"
    AWS_RATE_LIMIT = "AWS_RATE_LIMIT"
    NO_MATCHING_DELEGATE = "NO_MATCHING_DELEGATE"


@dataclass(frozen=True)
class WorkDelay:
    """Sentence that says what waits and for what; `path` is a page about it."""

    code: DelayCode
    text: str
    path: str = ""
    link: str = ""


DelayReader = Callable[[datetime], list[WorkDelay]]


@dataclass
class _Registry:
    """Registered readers, and what they returned last in this process."""

    readers: list[DelayReader] = field(default_factory=list)
    # One value, so that each thread sees delays with their own time.
    latest: tuple[datetime, list[WorkDelay]] | None = None


_registry: Final = _Registry()


def register_delay_reader(read: DelayReader) -> None:
    """Register reasons that hold for all work of this installation."""
    if read not in _registry.readers:
        _registry.readers.append(read)


def list_installation_delays(now: datetime) -> list[WorkDelay]:
    """Return why all work of this installation waits; empty while it does not.

    The answer may be as old as `CACHE_DURATION`.
    """
    if _registry.latest is not None:
        read_at, delays = _registry.latest
        if abs(now - read_at) < CACHE_DURATION:
            return list(delays)
    delays = [delay for read in _registry.readers for delay in read(now)]
    _registry.latest = now, delays
    return list(delays)


def clear_delay_cache() -> None:
    """Read the reasons anew the next time."""
    _registry.latest = None


def describe_seconds(seconds: float) -> str:
    """Return a wait in words, such as `40 s` or `3 min`."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
