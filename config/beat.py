"""Celery beat scheduler that tolerates an unreachable broker."""

import logging
from typing import Any

from celery.beat import PersistentScheduler, SchedulingError

from web.http.outages import is_outage

logger = logging.getLogger(__name__)


class Scheduler(PersistentScheduler):
    """Scheduler that sleeps until an entry is due.

    Celery's own (celery 5.7, `celery/beat.py`) wakes ten milliseconds earlier and then polls without a pause.
    With one entry per second, that costs one percent of a core.
    """

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
