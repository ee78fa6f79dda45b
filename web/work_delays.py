"""Reasons why background work waits, as pages show them; apps above register what they know."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

# Header of a Celery message with the time at which it was sent, in seconds.
SENT_AT_HEADER: Final = "slipway_sent_at"


@dataclass(frozen=True)
class WorkDelay:
    """Sentence that says what waits and for what; `path` is a page about it."""

    text: str
    path: str = ""
    link: str = ""


DelayReader = Callable[[datetime], list[WorkDelay]]
_readers: Final[list[DelayReader]] = []


def register_delay_reader(read: DelayReader) -> None:
    """Register reasons that hold for all work of this installation."""
    if read not in _readers:
        _readers.append(read)


def list_installation_delays(now: datetime) -> list[WorkDelay]:
    """Return why all work of this installation waits; empty while it does not."""
    return [delay for read in _readers for delay in read(now)]


def describe_seconds(seconds: float) -> str:
    """Return a wait in words, such as `40 s` or `3 min`."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
