"""Takes away what is older than it is kept for."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from delegates.models import DelegateTask
from delegates.protocol.pruning import delete_in_parts
from inventory.models.instances import ContainerInstance, SeenEvent, SeenService, ServiceInstance, SyncPause
from inventory.sync.clusters import let_go
from inventory.sync.progress import Sync

STOPPED_KEPT = timedelta(days=30)
EVENTS_KEPT = timedelta(days=90)
GONE_KEPT = timedelta(days=90)
# A sync through a delegate is hundreds of tasks a minute: long enough to see why one has failed.
TASKS_KEPT = timedelta(minutes=15)


def prune(now: datetime) -> int:
    """Delete what is older than it is kept for, a part at a time, and say how many rows went."""
    let_go(now)
    return sum(delete_in_parts(rows) for rows in _old(now))


def _old(now: datetime) -> list[QuerySet[Any]]:
    asked = DelegateTask.objects.filter(owner=Sync.OWNER).exclude(status__in=DelegateTask.OPEN)
    # A machine that nothing has run on for a day; it is described again as soon as something does.
    idle = ContainerInstance.objects.filter(instances=None, seen_at__lt=now - timedelta(days=1))
    return [
        asked.filter(finished_at__lt=now - TASKS_KEPT),
        ServiceInstance.objects.filter(stopped_at__lt=now - STOPPED_KEPT),
        SeenEvent.objects.filter(at__lt=now - EVENTS_KEPT),
        SeenService.objects.filter(gone_at__lt=now - GONE_KEPT, instances=None, events=None),
        idle,
        SyncPause.objects.filter(until__lt=now - timedelta(days=1)),
    ]
