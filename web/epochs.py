"""Epoch of the installation, by which a database that went back in time is noticed.

The database has a history and a number that grows each second. Valkey remembers both. A database with a
lower number, or of a history that Valkey does not know, is not the one that Slipway worked on last: it was
restored by other means. If Valkey remembers nothing, nothing is known.
"""

import logging
import uuid
from datetime import datetime
from typing import Final

from django.core.cache import cache
from django.db.models import F

from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage
from web.models import InstallationEpoch

_MEMORY_KEY: Final = "installation-epoch"
_ROW_KEY: Final = 1
logger = logging.getLogger(__name__)


def is_database_behind() -> bool:
    """Return whether the database is older than what Valkey remembers."""
    # What is remembered comes first: meanwhile the database can only advance.
    memory = _read_memory()
    epoch = get_epoch()
    return epoch is not None and _is_behind(epoch, memory)


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
