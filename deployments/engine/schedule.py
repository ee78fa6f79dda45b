"""When a waiting execution is looked at again: close at first, then wider, on the grid of its group."""

from datetime import UTC, datetime, timedelta
from zlib import crc32

EARLY, EARLY_WAIT = timedelta(seconds=6), timedelta(seconds=2)
USUAL, USUAL_WAIT = timedelta(minutes=10), timedelta(seconds=5)
LATE_WAIT = timedelta(seconds=10)


def wait_since(age: timedelta) -> timedelta:
    """The time between two looks at what has been waited for so long."""
    if age < EARLY:
        return EARLY_WAIT
    return USUAL_WAIT if age < USUAL else LATE_WAIT


def turn_after(now: datetime, since: datetime, group: str) -> datetime:
    """The next turn of what waits `since` then.

    Turns lie on a grid, so that all who wait in one group have theirs together and one call serves ten of
    them. The grids of different groups are shifted, so that they do not all ask at once. The first turn
    leaves AWS two seconds: nothing is done sooner.
    """
    apart = wait_since(now - since)
    wait = apart.total_seconds()
    shift = crc32(group.encode()) % int(LATE_WAIT.total_seconds())
    # Where the grid gets wider, its next turn may lie right behind this one.
    soonest = now + EARLY_WAIT if apart == USUAL_WAIT else now
    after = max(soonest, since + EARLY_WAIT).timestamp()
    passed = (after - shift) // wait
    return datetime.fromtimestamp((passed + 1) * wait + shift, UTC)
