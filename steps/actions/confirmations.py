"""Confirmations of calls whose answer was lost, and the lag of eventually consistent reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from steps.actions.context import StepContext


@dataclass(frozen=True)
class CallRecord:
    """A write in the journal whose answer is unknown."""

    service: str
    operation: str
    params: Mapping[str, Any]
    sent_at: datetime
    send_number: int


@dataclass(frozen=True)
class Applied:
    """The write took effect; `answer` is the response of AWS, rebuilt from its state."""

    answer: Mapping[str, Any]


@dataclass(frozen=True)
class NotApplied:
    """The write took no effect and may be sent again."""


@dataclass(frozen=True)
class Unconfirmed:
    """AWS does not show yet whether the write took effect."""


@dataclass(frozen=True)
class Indeterminate:
    """Nothing can show whether the write took effect, and it must not be sent again: it counts as failed."""

    code: str
    message: str


Confirmation = Applied | NotApplied | Unconfirmed | Indeterminate
READ_LAG = timedelta(seconds=30)
RECHECK_INTERVAL = timedelta(seconds=30)


def is_past_read_lag(context: StepContext, call: CallRecord) -> bool:
    """Return whether a read made now is late enough after the write to prove that it did not happen.

    Ask before reading. AWS answers reads from copies that lag; half a minute later they no longer do.
    """
    return context.now() - call.sent_at >= READ_LAG


def has_recent_write(context: StepContext) -> bool:
    """Return whether a read may still show what was before this action wrote.

    An undo sees its work done in such a read although nothing is undone: it writes all the same, and does not
    call itself done.
    """
    return context.written_at is not None and context.now() - context.written_at < READ_LAG


def rest_past_read_lag(context: StepContext) -> None:
    """Let the next check wait for another state, or for reads that show this action's write for certain."""
    written_at = context.written_at
    context.wait_for_change(None if written_at is None else written_at + READ_LAG)


def is_read_stale(context: StepContext) -> bool:
    """`has_recent_write` for an undo that is about to write: decided once, as its replay comes later."""
    return bool(context.save_for_rollback("reads may be stale", has_recent_write(context)))


def is_observed_twice(context: StepContext, what: str, begun: datetime) -> bool:
    """Return whether an odd sight has now been seen twice, thirty seconds apart.

    Reads may go backwards, so one sight alone is not believed. `forget` clears it when it vanishes.
    """
    since = context.progress.setdefault(f"odd: {what}", begun.isoformat())
    return begun - datetime.fromisoformat(since) >= RECHECK_INTERVAL


def clear_observation(context: StepContext, what: str) -> None:
    """The odd sight is gone; a later one starts anew."""
    context.progress.pop(f"odd: {what}", None)
