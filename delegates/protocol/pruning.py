"""Takes away what nobody asks for any more."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    DelegateEvent,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    InstanceSample,
)

SAMPLES_KEPT = timedelta(hours=25)
LOGS_KEPT = timedelta(days=7)
EVENTS_KEPT = timedelta(days=30)
TASKS_KEPT = timedelta(days=7)
INSTANCES_KEPT = timedelta(days=7)
# A transaction that takes long keeps others from writing.
AT_ONCE = 1000


def prune(now: datetime) -> int:
    """Delete what is older than it is kept for, a part at a time, and say how many rows went."""
    return sum(delete_in_parts(rows) for rows in _old(now))


def _old(now: datetime) -> list[QuerySet[Any]]:
    ended = DelegateTask.objects.exclude(status__in=DelegateTask.OPEN)
    gone = DelegateInstance.objects.filter(status=DelegateInstance.Status.GONE)
    return [
        InstanceSample.objects.filter(at__lt=now - SAMPLES_KEPT),
        DelegateLogChunk.objects.filter(at__lt=now - LOGS_KEPT),
        DelegateEvent.objects.filter(at__lt=now - EVENTS_KEPT),
        ended.filter(finished_at__lt=now - TASKS_KEPT),
        gone.filter(last_heartbeat_at__lt=now - INSTANCES_KEPT),
        AllowlistEntry.objects.filter(expires_at__lt=now),
        BlocklistEntry.objects.filter(expires_at__lt=now),
    ]


def delete_in_parts(rows: QuerySet[Any]) -> int:
    """Delete rows a part at a time, and say how many went."""
    total = 0
    while ids := list(rows.values_list("pk", flat=True)[:AT_ONCE]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        total += len(ids)
    return total
