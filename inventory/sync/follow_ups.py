"""Follow-ups of deployments: the reads of a sync after one, and the engine's reads that it reuses."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from django.db.models import Q

from deployments.engine.service_waits import get_batch_key
from deployments.journal.recent_reads import NEVER, SERVICES, TARGETS, get_recent_reads, get_region_group
from deployments.models import AwsCall, Execution, StageExecution
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.announced_changes import claim_changes, list_covered_clusters
from inventory.sync.cursor import ALL, CHANGES, LISTS, SyncCursor
from inventory.sync.watched_services import filter_watched_services
from steps.states import CallState, Status

TAG_READS: Final = "tags"
# Longer than the lifetime of recent reads and than the interval of whole syncs.
WRITE_HISTORY: Final = timedelta(minutes=15)
_TASK_DEFINITION_OPERATIONS: Final = frozenset({"RegisterTaskDefinition", "DeregisterTaskDefinition"})
# Writes that neither create nor delete services.
_UPDATE_ONLY_OPERATIONS: Final = _TASK_DEFINITION_OPERATIONS | {
    "UpdateService",
    "TagResource",
    "UntagResource",
}
_SCALING_SERVICE: Final = "application-autoscaling"
_UNSENT_STATES: Final = (CallState.PLANNED, CallState.NOT_SENT)


def _list_affected_reads(service: str, operation: str) -> Iterator[str]:
    """Yield the kinds of reads that a write may change; scripts and templates may change any."""
    if operation not in _TASK_DEFINITION_OPERATIONS:
        yield SERVICES
    if service != "ecs":
        yield TARGETS
    if service != _SCALING_SERVICE and operation not in _TASK_DEFINITION_OPERATIONS | {"UpdateService"}:
        yield TAG_READS


@dataclass(frozen=True)
class RecentWrites:
    """The last write of executions by kind of read.

    `only_updates` is false where services may have been created or deleted since the last list, or an
    execution failed; then a follow-up of known services would miss changes.
    """

    last: Mapping[str, datetime]
    only_updates: bool

    @classmethod
    def of(cls, cluster: SyncedCluster, now: datetime) -> Self:
        """Load the writes of open and recently ended executions, in two queries."""
        listed = cluster.listed_at or NEVER
        executions = _list_recent_executions(cluster, now)
        only_updates = all(end.is_shown_since(listed) for end in executions.values())
        last = {SERVICES: NEVER, TARGETS: NEVER, TAG_READS: NEVER}
        calls = AwsCall.objects.filter(execution__in=list(executions), is_write=True)
        calls = calls.exclude(state__in=_UNSENT_STATES)
        for service, operation, answered_at in calls.values_list("service", "operation", "answered_at"):
            # A write without response may take effect at any moment.
            at = answered_at or now
            for kind in _list_affected_reads(service, operation):
                last[kind] = max(last[kind], at)
            only_updates &= operation in _UPDATE_ONLY_OPERATIONS or service == _SCALING_SERVICE or at < listed
        return cls(last, only_updates)


@dataclass(frozen=True)
class _ExecutionEnd:
    """The end of an execution, if it has ended."""

    at: datetime | None
    status: str

    def is_shown_since(self, listed: datetime) -> bool:
        """Return whether known services and running tasks show all that it changed since `listed`."""
        return self.at is None or self.at < listed or self.status == Status.SUCCESS


def _list_recent_executions(cluster: SyncedCluster, now: datetime) -> dict[UUID, _ExecutionEnd]:
    stages = StageExecution.objects.filter(region=cluster.region, cluster=cluster.cluster)
    recent = Q(ended_at=None) | Q(ended_at__gt=now - WRITE_HISTORY)
    rows = Execution.objects.filter(recent, pk__in=stages.values("execution"))
    return {pk: _ExecutionEnd(at, status) for pk, at, status in rows.values_list("pk", "ended_at", "status")}


# A whole sync finds services created outside Slipway and short-lived tasks.
LIST_INTERVAL: Final = timedelta(minutes=4)


# While events arrive: the interval of lists, and of reads of all services.
NET_INTERVAL: Final = timedelta(minutes=5)
DESCRIBE_INTERVAL: Final = timedelta(minutes=15)
# Syncs do not start to the second.
_TOLERANCE: Final = timedelta(seconds=30)


def create_cursor(cluster: SyncedCluster, now: datetime) -> SyncCursor:
    """Return a cursor at the start: for everything, or for what events or deployments have changed."""
    extent = _choose_extent(cluster, now)
    if extent == LISTS:
        return SyncCursor(started_at=now.isoformat(), extent=LISTS)
    changed = claim_changes(cluster, now)
    if extent == CHANGES:
        watched = filter_watched_services(cluster, now).values_list("name", flat=True)
        if names := sorted({*changed, *watched}):
            return SyncCursor.of_changes(now.isoformat(), names)
    return _create_usual_cursor(cluster, now)


def _choose_extent(cluster: SyncedCluster, now: datetime) -> str:
    """Return what to read: everything, unless events announce all changes since the last list."""
    requested_at, synced_at, listed_at = cluster.sync_requested_at, cluster.synced_at, cluster.listed_at
    is_requested = requested_at is not None and (synced_at is None or requested_at > synced_at)
    if listed_at is None or is_requested or cluster.failures or cluster.follow_up_due_at is not None:
        return ALL
    if not list_covered_clusters([cluster], now):
        return ALL
    if listed_at > now - NET_INTERVAL + _TOLERANCE:
        return CHANGES
    described_at = cluster.described_at
    return LISTS if described_at and described_at > now - DESCRIBE_INTERVAL + _TOLERANCE else ALL


def _create_usual_cursor(cluster: SyncedCluster, now: datetime) -> SyncCursor:
    """Return a cursor for everything; after a deployment that only updated, for known services alone."""
    if not _is_recently_listed(cluster, now) or not RecentWrites.of(cluster, now).only_updates:
        return SyncCursor(started_at=now.isoformat())
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None).order_by("pk")
    names = list(rows.values_list("name", flat=True))
    return (
        SyncCursor.of_follow_up(now.isoformat(), names) if names else SyncCursor(started_at=now.isoformat())
    )


def _is_recently_listed(cluster: SyncedCluster, now: datetime) -> bool:
    """Return whether a follow-up is due and the services were listed recently."""
    is_follow_up_due, listed = cluster.follow_up_due_at is not None, cluster.listed_at
    return is_follow_up_due and listed is not None and listed > now - LIST_INTERVAL


def get_recent_services(
    cluster: SyncedCluster, pending: Collection[str], now: datetime
) -> dict[str, dict[str, Any]]:
    """Return the services that the engine described after their last change, by name.

    Its reads have no tags; the tags of the last sync are valid until the next write.
    """
    names = {arn.rsplit("/", 1)[-1] for arn in pending}
    reads = get_recent_reads(
        SERVICES, get_batch_key(cluster), names, since=cluster.sync_requested_at or NEVER, now=now
    )
    if not reads:
        return {}
    writes = RecentWrites.of(cluster, now).last
    rows = EcsServiceRecord.objects.filter(
        cluster=cluster, name__in=list(reads), gone_at=None, seen_at__gt=writes[TAG_READS]
    )
    tags = {name: answered.get("tags", []) for name, answered in rows.values_list("name", "description")}
    return {
        name: {**read.answer, "tags": tags[name]}
        for name, read in reads.items()
        if read.answer is not None and read.started_at > writes[SERVICES] and name in tags
    }


def get_recent_targets(
    cluster: SyncedCluster, ids: Collection[str], now: datetime
) -> dict[str, dict[str, Any] | None]:
    """Return the scalable targets that were read after the last change of any; None is no target."""
    group = get_region_group(cluster.connector, cluster.region)
    reads = get_recent_reads(TARGETS, group, ids, since=cluster.sync_requested_at or NEVER, now=now)
    since = RecentWrites.of(cluster, now).last[TARGETS] if reads else NEVER
    return {name: read.answer for name, read in reads.items() if read.started_at > since}
