"""Retention periods of delegate rows."""

from datetime import datetime, timedelta

from connectors.secret_values import CACHE_SECONDS
from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    DelegateEvent,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    InstanceSample,
    LookupRequest,
    RefusedInstance,
    SecretRead,
)
from delegates.task_owners import EVENT_QUEUE_OWNER
from web.retention import RetentionRule

ENDED_TASKS = DelegateTask.objects.exclude(status__in=DelegateTask.OPEN)
# Each queue has seven a minute, whose results are not kept.
ENDED_QUEUE_READS = ENDED_TASKS.filter(owner=EVENT_QUEUE_OWNER)

DELEGATE_RETENTION = (
    RetentionRule("Delegate charts", InstanceSample.objects.all(), "at", timedelta(hours=25)),
    RetentionRule(
        "Delegate logs", DelegateLogChunk.objects.all(), "at", setting="SLIPWAY_KEEP_DELEGATE_LOGS_DAYS"
    ),
    RetentionRule(
        "Delegate events", DelegateEvent.objects.all(), "at", setting="SLIPWAY_KEEP_DELEGATE_EVENTS_DAYS"
    ),
    RetentionRule("Delegate tasks", ENDED_TASKS, "finished_at", setting="SLIPWAY_KEEP_DELEGATE_TASKS_DAYS"),
    RetentionRule("Delegate reads of event queues", ENDED_QUEUE_READS, "finished_at", timedelta(hours=1)),
    RetentionRule("Delegate lookups", LookupRequest.objects.all(), "requested_at", timedelta(days=1)),
    RetentionRule(
        "Delegate instances that are gone",
        DelegateInstance.objects.filter(status=DelegateInstance.Status.GONE),
        "last_heartbeat_at",
        timedelta(days=7),
    ),
    RetentionRule(
        "Delegate instances that were never approved",
        DelegateInstance.objects.filter(status=DelegateInstance.Status.GONE, last_heartbeat_at=None),
        "registered_at",
        timedelta(days=7),
    ),
    RetentionRule(
        "Refused delegate instances", RefusedInstance.objects.all(), "last_seen_at", timedelta(days=7)
    ),
    RetentionRule("Delegate allowlist entries", AllowlistEntry.objects.all(), "expires_at"),
    RetentionRule("Delegate blocklist entries", BlocklistEntry.objects.all(), "expires_at"),
)


def erase_old_secret_values(now: datetime) -> int:
    """Erase what delegates have read of secrets and nobody may use any more; return the number of values."""
    old = SecretRead.objects.filter(value_at__lte=now - timedelta(seconds=CACHE_SECONDS))
    return old.update(value="", value_at=None)
