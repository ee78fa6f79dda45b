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
class Repeatable:
    """The write may have taken effect; AWS answers a repetition with the same token as it did the first."""


@dataclass(frozen=True)
class Unconfirmed:
    """AWS does not show yet whether the write took effect."""


@dataclass(frozen=True)
class Indeterminate:
    """No read can show whether the write took effect, and it must not be repeated: it counts as failed."""

    code: str
    message: str


Confirmation = Applied | NotApplied | Repeatable | Unconfirmed | Indeterminate
READ_LAG = timedelta(seconds=30)
RECHECK_INTERVAL = timedelta(seconds=30)


def is_past_read_lag(context: StepContext, call: CallRecord) -> bool:
    """Return whether a read from now on proves that a write without visible effect did not happen.

    Call it before the read. AWS answers reads from replicas that lag by up to `READ_LAG`.
    """
    return context.now() - call.sent_at >= READ_LAG


def has_recent_write(context: StepContext) -> bool:
    """Return whether a read may still show the state from before this action's write.

    In such a read the undo seems done although it is not: the undo then writes anyway and is not done yet.
    """
    return context.written_at is not None and context.now() - context.written_at < READ_LAG


def wait_past_read_lag(context: StepContext) -> None:
    """Skip checks until the state changes, or until reads certainly show this action's write."""
    written_at = context.written_at
    context.wait_for_change(None if written_at is None else written_at + READ_LAG)


def is_read_stale(context: StepContext) -> bool:
    """Return `has_recent_write` for an undo about to write; saved, because a replay comes later."""
    return bool(context.save_for_rollback("reads may be stale", has_recent_write(context)))


def is_observed_twice(
    context: StepContext, state: str, read_started_at: datetime, interval: timedelta = RECHECK_INTERVAL
) -> bool:
    """Return whether an unexpected state was observed twice, thirty seconds or another interval apart.

    Reads may go backwards, so one observation is not proof. `clear_observation` removes it.
    """
    since = context.progress.setdefault(f"odd: {state}", read_started_at.isoformat())
    return read_started_at - datetime.fromisoformat(since) >= interval


def clear_observation(context: StepContext, state: str) -> None:
    """Delete the observation of an unexpected state; a later one starts anew."""
    context.progress.pop(f"odd: {state}", None)
