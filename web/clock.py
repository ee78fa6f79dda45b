"""Database clock that all processes share."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection

# Between two readings this process's own clock counts on, which drifts by microseconds meanwhile.
CLOCK_REFRESH_SECONDS = 5.0


@dataclass(frozen=True)
class _ClockReading:
    """Reading of the database's clock with the monotonic time of its arrival."""

    moment: datetime
    monotonic: float


_readings: dict[str, _ClockReading] = {}


def get_database_time() -> datetime:
    """Return the time by the database's clock, read every few seconds; on SQLite that is this machine's.

    Late by the time that an answer of the database takes, never ahead.
    """
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    last = _readings.get(connection.alias)
    if last is None or time.monotonic() - last.monotonic >= CLOCK_REFRESH_SECONDS:
        last = _readings[connection.alias] = _read_clock()
    return last.moment + timedelta(seconds=time.monotonic() - last.monotonic)


def _read_clock() -> _ClockReading:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return _ClockReading(moment, time.monotonic())
