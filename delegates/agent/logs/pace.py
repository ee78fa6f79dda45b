"""How fast a task may write: a token bucket that slows it down and loses nothing."""

import time
from collections.abc import Callable

# A pause that is shorter than this costs more than it is worth.
SHORTEST_PAUSE_SECONDS = 0.02


class Pace:
    """`burst` bytes at once, then `rate` bytes a second; not to be shared by threads."""

    def __init__(
        self,
        rate: int,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._burst, self._clock, self._sleep = rate, burst, clock, sleep
        self._left, self._counted_at = float(burst), clock()

    def spend(self, size: int) -> bool:
        """Count `size` bytes and wait where there were too many; whether it waited."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._counted_at) * self._rate) - size
        self._counted_at = now
        pause = -self._left / self._rate
        if pause < SHORTEST_PAUSE_SECONDS:
            return False
        self._sleep(pause)
        return True
