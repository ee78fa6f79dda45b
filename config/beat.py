"""Celery beat scheduler that tolerates an unreachable broker, and of which several may run: one acts."""

import logging
import os
import secrets
import socket
from datetime import timedelta
from typing import Any, Final

import redis
from celery.beat import PersistentScheduler, SchedulingError
from django.conf import settings

from web.http.outages import is_outage

LEASE_KEY: Final = "slipway:beat"
# A beat that was killed or hangs is replaced after this time, and one that ends in order at once.
LEASE_SECONDS: Final = 5.0
STANDBY_SECONDS: Final = 1.0
# Corrections of the clock that delay a tick by less are not worth a line in the log.
CLOCK_TOLERANCE: Final = timedelta(seconds=5)
# KEYS: lease. ARGV: owner, milliseconds. Result: 1 if the owner holds the lease from now on.
_HOLD_SCRIPT: Final = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE_SCRIPT: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

logger = logging.getLogger(__name__)


class BeatLease:
    """Lease in the broker on the right to send ticks.

    It spares messages, and correctness does not depend on it: every tick may come twice.
    """

    def __init__(self) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.is_held: bool | None = None
        self._client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3, socket_timeout=3)

    def hold(self) -> bool:
        """Take or renew the lease; return False while another beat has it.

        Returns True if the broker does not answer: sending a tick then says so.
        """
        try:
            milliseconds = int(LEASE_SECONDS * 1000)
            is_held = bool(self._client.eval(_HOLD_SCRIPT, 1, LEASE_KEY, self.owner, milliseconds))
        except redis.RedisError:
            return True
        if is_held is not self.is_held:
            logger.info(
                "This beat sends the ticks" if is_held else "Another beat sends the ticks, this one waits"
            )
        self.is_held = is_held
        return is_held

    def release(self) -> None:
        """Give the lease up, so that another beat acts at once."""
        try:
            self._client.eval(_RELEASE_SCRIPT, 1, LEASE_KEY, self.owner)
        except redis.RedisError as error:
            logger.info("The lease of this beat ends by itself: %s", error)


class Scheduler(PersistentScheduler):
    """Scheduler that sleeps until an entry is due, while it has the lease.

    Celery's own (celery 5.7, `celery/beat.py`) wakes ten milliseconds earlier and then polls without a pause.
    With one entry per second, that costs one percent of a core.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.lease = BeatLease()
        super().__init__(*arguments, **more)

    def tick(self, *arguments: Any, **more: Any) -> float:
        """Send what is due, and return the seconds to wait; only wait while another beat acts."""
        if not self.lease.hold():
            return STANDBY_SECONDS
        self._forget_future_runs()
        return float(super().tick(*arguments, **more))

    def _forget_future_runs(self) -> None:
        """Make entries due that ran before the clock was set back, instead of once that time comes again."""
        now = self.app.now()
        latest = now + CLOCK_TOLERANCE
        future = [entry for entry in self.schedule.values() if (entry.last_run_at or now) > latest]
        for entry in future:
            entry.last_run_at = now
        if future:
            logger.warning("The clock of this machine was set back: the schedule of ticks begins anew")
            # Celery computes the next times again.
            self._heap = None

    def close(self) -> None:
        """Store the schedule and give the lease up."""
        self.lease.release()
        super().close()

    def adjust(self, n: float, drift: float = 0) -> float:
        """Return the seconds to wait, unchanged."""
        return n

    def apply_async(self, entry: Any, *arguments: Any, **more: Any) -> Any:
        """Send a message; if the broker is unavailable, the next tick retries."""
        try:
            return super().apply_async(entry, *arguments, **more)
        except SchedulingError as error:
            if not is_outage(error.__context__):
                raise
            logger.warning("The broker took no message, the next tick tries again: %s", error.__context__)
            return None
