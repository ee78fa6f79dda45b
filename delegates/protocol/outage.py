"""While Slipway itself was away no agent could renew a lease: that costs none of them its task."""

import logging
import threading
from datetime import datetime, timedelta

from django.db.models import Max

from delegates.models import DelegateInstance, DelegateTask
from delegates.protocol.terms import LEASE
from web.clock import database_now

# The workers' instance is heard each five seconds. A shorter outage ends before the leases do: they have 15
# seconds left at least, and are renewed within five of its end.
AWAY_AFTER = timedelta(seconds=8)
logger = logging.getLogger(__name__)
_asked = threading.Event()


def forgive_once() -> None:
    """At the first word of an agent to this process: before it is told that it lost something."""
    if not _asked.is_set():
        _asked.set()
        forgive(database_now())


def forgive(now: datetime) -> int:
    """Begin the leases anew that ended while no worker was there to notice; how many there were.

    Not those of instances whose sessions were ended: they are not coming back.
    """
    if not _was_away(now):
        return 0
    running = DelegateTask.objects.filter(status=DelegateTask.Status.STARTED, lease_until__lt=now + LEASE)
    theirs = running.filter(instance__delegate__is_built_in=False).exclude(instance__session_hash="")
    if count := theirs.update(lease_until=now + LEASE):
        logger.info("Slipway was away: %s tasks stay with their delegates", count)
    return count


def _was_away(now: datetime) -> bool:
    workers = DelegateInstance.objects.filter(delegate__is_built_in=True)
    heard = workers.aggregate(last=Max("last_heartbeat_at"))["last"]
    return heard is not None and now - heard > AWAY_AFTER
