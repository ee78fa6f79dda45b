"""Retention periods of delegate rows, and deletion of rows past them in batches."""

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

SAMPLE_RETENTION = timedelta(hours=25)
LOG_RETENTION = timedelta(days=7)
EVENT_RETENTION = timedelta(days=30)
TASK_RETENTION = timedelta(days=7)
INSTANCE_RETENTION = timedelta(days=7)
# A transaction that takes long keeps others from writing.
BATCH_SIZE = 1000


def prune_expired_rows(now: datetime) -> int:
    """Delete expired rows in batches, and return their number."""
    return sum(delete_in_batches(rows) for rows in _list_expired(now))


def _list_expired(now: datetime) -> list[QuerySet[Any]]:
    ended = DelegateTask.objects.exclude(status__in=DelegateTask.OPEN)
    gone = DelegateInstance.objects.filter(status=DelegateInstance.Status.GONE)
    return [
        InstanceSample.objects.filter(at__lt=now - SAMPLE_RETENTION),
        DelegateLogChunk.objects.filter(at__lt=now - LOG_RETENTION),
        DelegateEvent.objects.filter(at__lt=now - EVENT_RETENTION),
        ended.filter(finished_at__lt=now - TASK_RETENTION),
        gone.filter(last_heartbeat_at__lt=now - INSTANCE_RETENTION),
        AllowlistEntry.objects.filter(expires_at__lt=now),
        BlocklistEntry.objects.filter(expires_at__lt=now),
    ]


def delete_in_batches(rows: QuerySet[Any]) -> int:
    """Delete rows in batches, and return their number."""
    total = 0
    while ids := list(rows.values_list("pk", flat=True)[:BATCH_SIZE]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        total += len(ids)
    return total
