"""Retention of stopped tasks, events, deleted ECS services and delegate tasks of sync."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from delegates.models import DelegateTask
from delegates.retention import delete_in_batches
from inventory.models.instances import (
    ContainerInstance,
    EcsServiceEvent,
    EcsServiceRecord,
    ServiceInstance,
    SyncPause,
)
from inventory.sync.clusters import stop_unused_clusters
from inventory.sync.sync_scan import SyncScan

STOPPED_TASK_RETENTION = timedelta(days=30)
EVENT_RETENTION = timedelta(days=90)
DELETED_SERVICE_RETENTION = timedelta(days=90)
# A sync through a delegate is hundreds of tasks a minute: long enough to see why one has failed.
DELEGATE_TASK_RETENTION = timedelta(minutes=15)


def prune_instances(now: datetime) -> int:
    """Delete what is older than it is kept for, a part at a time, and say how many rows went."""
    stop_unused_clusters(now)
    return sum(delete_in_batches(rows) for rows in _list_expired(now))


def _list_expired(now: datetime) -> list[QuerySet[Any]]:
    asked = DelegateTask.objects.filter(owner=SyncScan.OWNER).exclude(status__in=DelegateTask.OPEN)
    # A machine that nothing has run on for a day; it is described again as soon as something does.
    idle = ContainerInstance.objects.filter(instances=None, seen_at__lt=now - timedelta(days=1))
    return [
        asked.filter(finished_at__lt=now - DELEGATE_TASK_RETENTION),
        ServiceInstance.objects.filter(stopped_at__lt=now - STOPPED_TASK_RETENTION),
        EcsServiceEvent.objects.filter(at__lt=now - EVENT_RETENTION),
        EcsServiceRecord.objects.filter(
            gone_at__lt=now - DELETED_SERVICE_RETENTION, instances=None, events=None
        ),
        idle,
        SyncPause.objects.filter(paused_until__lt=now - timedelta(days=1)),
    ]
