"""Epoch of the installation, by which a database that went back in time is noticed.

The database has a history and a number that grows each second. Valkey remembers both. A database with a
lower number, or of a history that Valkey does not know, is not the one that Slipway worked on last: it was
restored by other means. If Valkey remembers nothing, nothing is known.
"""

import logging
import time
import uuid
from datetime import datetime
from typing import Final, NamedTuple

from django.core.cache import cache
from django.db import connection
from django.db.models import F

from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage
from web.models import InstallationEpoch

_MEMORY_KEY: Final = "installation-epoch"
_ROW_KEY: Final = 1
_MEMORY_SECONDS: Final = 1.0
logger = logging.getLogger(__name__)


class EpochCheck(NamedTuple):
    """Result of `check_epoch`."""

    holds: bool
    may_be_behind: bool


class _RecentMemory(NamedTuple):
    """What Valkey remembered at a monotonic time."""

    memory: tuple[str, int]
    read_at: float


_recent_memory: _RecentMemory | None = None


def is_database_behind() -> bool:
    """Return whether the database is older than what Valkey remembers."""
    # What is remembered comes first: meanwhile the database can only advance.
    memory = _read_memory()
    epoch = get_epoch()
    return epoch is not None and _is_behind(epoch, memory)


def check_epoch(condition: str) -> EpochCheck | None:
    """Return whether an SQL condition holds and the database may be behind, by one query; None without a row.

    Every Celery task asks, so Valkey is read at most once a second. That is safe: the database itself is read
    each time, and what is remembered only grows. So a memory of a second ago misses only a loss of about two
    seconds, until the next reading. It may also be of a history that a restore has ended since: confirm
    `may_be_behind` with `is_database_behind` before acting on it.
    """
    memory = _get_recent_memory()
    # By hand: building this query costs the ORM five times as long as the database takes for it.
    table = InstallationEpoch._meta.db_table
    sql = f"SELECT {condition}, history, previous_history, number FROM {table} WHERE id = %s"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [_ROW_KEY])
        row = cursor.fetchone()
    if row is None:
        return None
    holds, history, previous, number = row
    epoch = InstallationEpoch(
        # SQLite has them as texts.
        history=uuid.UUID(str(history)),
        previous_history=uuid.UUID(str(previous)) if previous else None,
        number=number,
    )
    return EpochCheck(bool(holds), _is_behind(epoch, memory))


def get_epoch() -> InstallationEpoch | None:
    """Return the epoch of the database; none before the first tick."""
    return InstallationEpoch.objects.filter(pk=_ROW_KEY).first()


def get_restored_at() -> datetime | None:
    """Return when the last restore was settled."""
    restores = InstallationEpoch.objects.filter(pk=_ROW_KEY)
    return restores.values_list("restored_at", flat=True).first()


def advance_epoch() -> None:
    """Advance the number, first in the database and then in Valkey; not in a database that is behind."""
    memory, now = _read_memory(), get_database_time()
    epoch, is_new = InstallationEpoch.objects.get_or_create(pk=_ROW_KEY, defaults={"advanced_at": now})
    if not is_new and _is_behind(epoch, memory):
        return
    # Conditional: the database may be restored at this moment.
    same = InstallationEpoch.objects.filter(pk=_ROW_KEY, history=epoch.history, number=epoch.number)
    if same.update(number=F("number") + 1, advanced_at=now):
        _remember(epoch.history, epoch.number + 1)


def begin_history(*, restored_from: datetime, now: datetime, was_detected: bool) -> None:
    """Begin a new history, in the transaction that settles a restore.

    Valkey learns it before the commit: if that fails, the database still counts as restored.
    """
    previous, history = get_epoch(), uuid.uuid4()
    InstallationEpoch.objects.update_or_create(
        pk=_ROW_KEY,
        defaults={
            "history": history,
            "previous_history": previous.history if previous else None,
            "number": 0,
            "advanced_at": now,
            "restored_at": now,
            "restored_from": restored_from,
            "was_detected": was_detected,
        },
    )
    _remember(history, 0)


def _is_behind(epoch: InstallationEpoch, memory: tuple[str, int] | None) -> bool:
    if memory is None:
        return False
    history, number = memory
    if history == str(epoch.history):
        return number > epoch.number
    # Valkey was away while the restore that ended that history was settled.
    return history != str(epoch.previous_history)


def _get_recent_memory() -> tuple[str, int] | None:
    """Return what Valkey remembered within the last second; without a memory, it is asked each time."""
    global _recent_memory
    recent, now = _recent_memory, time.monotonic()
    if recent is not None and now - recent.read_at < _MEMORY_SECONDS:
        return recent.memory
    memory = _read_memory()
    _recent_memory = None if memory is None else _RecentMemory(memory, now)
    return memory


def _read_memory() -> tuple[str, int] | None:
    """Return the history and number that Valkey remembers; None if it does not answer."""
    try:
        text: str = cache.get(_MEMORY_KEY, "")
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        return None
    history, _, number = text.partition(" ")
    return (history, int(number)) if number else None


def _remember(history: uuid.UUID, number: int) -> None:
    try:
        cache.set(_MEMORY_KEY, f"{history} {number}", timeout=None)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Valkey does not know yet how far the database has come: %s", error)
