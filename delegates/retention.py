"""Retention periods of delegate rows."""

from datetime import timedelta

from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    DelegateEvent,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    InstanceSample,
    LookupRequest,
)
from web.retention import RetentionRule

ENDED_TASKS = DelegateTask.objects.exclude(status__in=DelegateTask.OPEN)

DELEGATE_RETENTION = (
    RetentionRule(InstanceSample.objects.all(), "at", timedelta(hours=25)),
    RetentionRule(DelegateLogChunk.objects.all(), "at", timedelta(days=7)),
    RetentionRule(DelegateEvent.objects.all(), "at", timedelta(days=30)),
    RetentionRule(ENDED_TASKS, "finished_at", timedelta(days=7)),
    RetentionRule(LookupRequest.objects.all(), "requested_at", timedelta(days=1)),
    RetentionRule(
        DelegateInstance.objects.filter(status=DelegateInstance.Status.GONE),
        "last_heartbeat_at",
        timedelta(days=7),
    ),
    RetentionRule(AllowlistEntry.objects.all(), "expires_at"),
    RetentionRule(BlocklistEntry.objects.all(), "expires_at"),
)
