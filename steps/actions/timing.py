"""How long evidence must stand before it is believed (DESIGN 5, rules 9 and 10)."""

from datetime import datetime, timedelta

from steps.actions.base import CallRecord, Rollout

DENIAL_AGE = timedelta(seconds=30)
CONFIRMATION = timedelta(seconds=30)


def is_old_enough_to_deny(rollout: Rollout, call: CallRecord) -> bool:
    """Whether a read made now is late enough after the write to prove that it did not happen.

    Ask before reading. AWS answers reads from copies that lag; half a minute later they no longer do.
    """
    return rollout.now() - call.sent_at >= DENIAL_AGE


def wrote_lately(rollout: Rollout) -> bool:
    """Whether a read may still show what was before this action wrote.

    An undo sees its work done in such a read although nothing is undone: it writes all the same, and does not
    call itself done.
    """
    return rollout.written_at is not None and rollout.now() - rollout.written_at < DENIAL_AGE


def may_be_stale(rollout: Rollout) -> bool:
    """`wrote_lately` for an undo that is about to write: decided once, as its replay comes later."""
    return bool(rollout.remember("reads may be stale", wrote_lately(rollout)))


def is_confirmed(rollout: Rollout, what: str, begun: datetime) -> bool:
    """Whether an odd sight has now been seen twice, thirty seconds apart.

    Reads may go backwards, so one sight alone is not believed. `forget` clears it when it vanishes.
    """
    since = rollout.progress.setdefault(f"odd: {what}", begun.isoformat())
    return begun - datetime.fromisoformat(since) >= CONFIRMATION


def forget(rollout: Rollout, what: str) -> None:
    """The odd sight is gone; a later one starts anew."""
    rollout.progress.pop(f"odd: {what}", None)
