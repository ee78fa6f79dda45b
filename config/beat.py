"""The clock of Celery that sends the ticks."""

from celery.beat import PersistentScheduler


class Scheduler(PersistentScheduler):
    """A scheduler that sleeps until an entry is due.

    Celery's own (celery 5.7, `celery/beat.py`) wakes ten milliseconds before, and then asks without a pause
    until it is due: with an entry each second, one per cent of a core.
    """

    def adjust(self, n: float, drift: float = 0) -> float:
        """Return the seconds to wait, unchanged."""
        return n
