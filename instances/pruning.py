"""Takes away what is older than it is kept for."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from delegates.models import DelegateTask
from instances.clusters import let_go
from instances.delegated import OWNER
from instances.models import SeenEvent, SeenService, ServiceInstance

STOPPED_KEPT = timedelta(days=30)
EVENTS_KEPT = timedelta(days=90)
GONE_KEPT = timedelta(days=90)
# A sync through a delegate is hundreds of tasks a minute: long enough to see why one has failed.
TASKS_KEPT = timedelta(minutes=15)
# A transaction that takes long keeps others from writing.
AT_ONCE = 1000


def prune(now: datetime) -> int:
    """Delete what is older than it is kept for, a part at a time, and say how many rows went."""
    let_go(now)
    return sum(_delete(rows) for rows in _old(now))


def _old(now: datetime) -> list[QuerySet[Any]]:
    asked = DelegateTask.objects.filter(owner=OWNER).exclude(status__in=DelegateTask.OPEN)
    return [
        asked.filter(finished_at__lt=now - TASKS_KEPT),
        ServiceInstance.objects.filter(stopped_at__lt=now - STOPPED_KEPT),
        SeenEvent.objects.filter(at__lt=now - EVENTS_KEPT),
        SeenService.objects.filter(gone_at__lt=now - GONE_KEPT, instances=None, events=None),
    ]


def _delete(rows: QuerySet[Any]) -> int:
    total = 0
    while ids := list(rows.values_list("pk", flat=True)[:AT_ONCE]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        total += len(ids)
    return total
