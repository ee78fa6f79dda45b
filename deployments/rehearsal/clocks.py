"""Clock of a rehearsal: time of its sandbox, which passes only while a step waits."""

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from deployments.rehearsal.sandbox_access import RehearsalSandbox
from guards.limits import REHEARSAL_SECONDS

CHECK_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 60.0
MOST_REHEARSED_TIME: Final = timedelta(hours=6)


class RehearsalTooLong(Exception):
    """Error raised above the limit of a rehearsal; the text names the limit."""


@dataclass
class RehearsalClock:
    """Time of a sandbox; the rehearsal itself ends at `deadline` of the monotonic clock."""

    sandbox: RehearsalSandbox
    deadline: float
    started_at: datetime = field(init=False)
    now: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.started_at = self.now = self.sandbox.advance(0)

    @property
    def seconds(self) -> int:
        """Return the rehearsed seconds so far."""
        return self.get_seconds_since(self.started_at)

    def get_seconds_since(self, moment: datetime) -> int:
        """Return the rehearsed seconds since a moment of this clock."""
        return int((self.now - moment).total_seconds())

    def pass_time(self, wakes_at: datetime | None) -> None:
        """Skip to the next check, or to the time that a step waits for.

        Raises `RehearsalTooLong`, `SandboxLost`.
        """
        if time.monotonic() > self.deadline:
            raise RehearsalTooLong(f"Unknown: it took longer than the {REHEARSAL_SECONDS} of a rehearsal.")
        if self.now - self.started_at > MOST_REHEARSED_TIME:
            hours = MOST_REHEARSED_TIME.total_seconds() / 3600
            raise RehearsalTooLong(f"Unknown: a rehearsal ends after {hours:g} rehearsed hours.")
        pause = CHECK_SECONDS
        if wakes_at is not None:
            remaining = (wakes_at - self.now).total_seconds()
            pause = min(max(remaining, CHECK_SECONDS), LONGEST_PAUSE_SECONDS)
        self.now = self.sandbox.advance(pause)
