"""Follow-ups of deployments: what sync reads right after one, and which reads of the engine it reuses."""

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
from inventory.sync.cursor import SyncCursor
from steps.states import CallState, Status

TAG_READS: Final = "tags"
# Longer than any recent read is kept, and than whole syncs are apart.
WRITE_HISTORY: Final = timedelta(minutes=15)
_TASK_DEFINITION_OPERATIONS: Final = frozenset({"RegisterTaskDefinition", "DeregisterTaskDefinition"})
# Writes after which a cluster has the same services as before.
_UPDATE_ONLY_OPERATIONS: Final = _TASK_DEFINITION_OPERATIONS | {
    "UpdateService",
    "TagResource",
    "UntagResource",
}
_SCALING_SERVICE: Final = "application-autoscaling"
_UNSENT_STATES: Final = (CallState.PLANNED, CallState.NOT_SENT)


def _list_affected_reads(service: str, operation: str) -> Iterator[str]:
    """The kinds of reads that may look different after a write; scripts and templates may write anything."""
    if operation not in _TASK_DEFINITION_OPERATIONS:
        yield SERVICES
    if service != "ecs":
        yield TARGETS
    if service != _SCALING_SERVICE and operation not in _TASK_DEFINITION_OPERATIONS | {"UpdateService"}:
        yield TAG_READS


@dataclass(frozen=True)
class RecentWrites:
    """When executions last changed what a kind of read shows.

    `only_updates` is false where services may have come or gone since the last list of them, or a run did not
    succeed: a follow-up of the known services would not show all of it.
    """

    last: Mapping[str, datetime]
    only_updates: bool

    @classmethod
    def of(cls, cluster: SyncedCluster, now: datetime) -> Self:
        """Read the writes of the executions that are open, or ended lately; two queries."""
        listed = cluster.listed_at or NEVER
        executions = _list_recent_executions(cluster, now)
        only_updates = all(end.is_shown_since(listed) for end in executions.values())
        last = {SERVICES: NEVER, TARGETS: NEVER, TAG_READS: NEVER}
        calls = AwsCall.objects.filter(execution__in=list(executions), is_write=True)
        calls = calls.exclude(state__in=_UNSENT_STATES)
        for service, operation, answered in calls.values_list("service", "operation", "answered_at"):
            # What has no answer may take effect at any moment.
            at = answered or now
            for kind in _list_affected_reads(service, operation):
                last[kind] = max(last[kind], at)
            only_updates &= operation in _UPDATE_ONLY_OPERATIONS or service == _SCALING_SERVICE or at < listed
        return cls(last, only_updates)


@dataclass(frozen=True)
class _ExecutionEnd:
    """How and when an execution ended, if it has."""

    at: datetime | None
    status: str

    def is_shown_since(self, listed: datetime) -> bool:
        """Whether known services and running tasks are all that it left since then."""
        return self.at is None or self.at < listed or self.status == Status.SUCCESS


def _list_recent_executions(cluster: SyncedCluster, now: datetime) -> dict[UUID, _ExecutionEnd]:
    stages = StageExecution.objects.filter(region=cluster.region, cluster=cluster.cluster)
    recent = Q(ended_at=None) | Q(ended_at__gt=now - WRITE_HISTORY)
    rows = Execution.objects.filter(recent, pk__in=stages.values("execution"))
    return {pk: _ExecutionEnd(at, status) for pk, at, status in rows.values_list("pk", "ended_at", "status")}


# Services that others make, and tasks that came and went unseen, are found by a sync that lists all.
LIST_INTERVAL: Final = timedelta(minutes=4)


def create_cursor(cluster: SyncedCluster, now: datetime) -> SyncCursor:
    """Return a reading from its beginning: after a deployment that only updated, one of what is known."""
    if not _is_recently_listed(cluster, now) or not RecentWrites.of(cluster, now).only_updates:
        return SyncCursor(started_at=now.isoformat())
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None).order_by("pk")
    names = list(rows.values_list("name", flat=True))
    return (
        SyncCursor.of_follow_up(now.isoformat(), names) if names else SyncCursor(started_at=now.isoformat())
    )


def _is_recently_listed(cluster: SyncedCluster, now: datetime) -> bool:
    """Whether a deployment is to be followed, and the services were listed a short while ago."""
    follows, listed = cluster.follow_up_due_at is not None, cluster.listed_at
    return follows and listed is not None and listed > now - LIST_INTERVAL


def get_recent_services(
    cluster: SyncedCluster, asked: Collection[str], now: datetime
) -> dict[str, dict[str, Any]]:
    """Return the services among `asked` that the engine described after their last change, by name.

    Its reads have no tags. Those of the last sync hold as long as no execution has written any since.
    """
    names = {one.rsplit("/", 1)[-1] for one in asked}
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
        if read.answer is not None and read.begun > writes[SERVICES] and name in tags
    }


def get_recent_targets(
    cluster: SyncedCluster, asked: Collection[str], now: datetime
) -> dict[str, dict[str, Any] | None]:
    """Return the scalable targets of `asked` as read after the last change of any; None is no target."""
    group = get_region_group(cluster.connector, cluster.region)
    reads = get_recent_reads(TARGETS, group, asked, since=cluster.sync_requested_at or NEVER, now=now)
    since = RecentWrites.of(cluster, now).last[TARGETS] if reads else NEVER
    return {name: read.answer for name, read in reads.items() if read.begun > since}
