"""Recent writes of executions to one cluster: they limit which earlier reads a sync may use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self
from uuid import UUID

from django.db.models import Q

from deployments.engine.recent_reads import NEVER, SERVICES, TARGETS
from deployments.models import Call, Execution, StageExecution
from inventory.models.instances import SyncedCluster
from steps.states import CallState, Status

TAGS: Final = "tags"
# Longer than any recent read is kept, and than whole syncs are apart.
LOOKED_BACK: Final = timedelta(minutes=15)
_OF_DEFINITIONS: Final = frozenset({"RegisterTaskDefinition", "DeregisterTaskDefinition"})
# Writes after which a cluster has the same services as before.
_KEEPING: Final = _OF_DEFINITIONS | {"UpdateService", "TagResource", "UntagResource"}
_SCALING: Final = "application-autoscaling"
_NOT_MADE: Final = (CallState.PLANNED, CallState.NOT_SENT)


def _kinds_of(service: str, operation: str) -> Iterator[str]:
    """The kinds of reads that may look different after a write; scripts and templates may write anything."""
    if operation not in _OF_DEFINITIONS:
        yield SERVICES
    if service != "ecs":
        yield TARGETS
    if service != _SCALING and operation not in _OF_DEFINITIONS | {"UpdateService"}:
        yield TAGS


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
        executions = _executions(cluster, now)
        only_updates = all(end.is_shown_since(listed) for end in executions.values())
        last = {SERVICES: NEVER, TARGETS: NEVER, TAGS: NEVER}
        calls = Call.objects.filter(execution__in=list(executions), is_write=True)
        calls = calls.exclude(state__in=_NOT_MADE)
        for service, operation, answered in calls.values_list("service", "operation", "answered_at"):
            # What has no answer may take effect at any moment.
            at = answered or now
            for kind in _kinds_of(service, operation):
                last[kind] = max(last[kind], at)
            only_updates &= operation in _KEEPING or service == _SCALING or at < listed
        return cls(last, only_updates)


@dataclass(frozen=True)
class _End:
    """How and when an execution ended, if it has."""

    at: datetime | None
    status: str

    def is_shown_since(self, listed: datetime) -> bool:
        """Whether known services and running tasks are all that it left since then."""
        return self.at is None or self.at < listed or self.status == Status.SUCCESS


def _executions(cluster: SyncedCluster, now: datetime) -> dict[UUID, _End]:
    stages = StageExecution.objects.filter(region=cluster.region, cluster=cluster.cluster)
    recent = Q(ended_at=None) | Q(ended_at__gt=now - LOOKED_BACK)
    rows = Execution.objects.filter(recent, pk__in=stages.values("execution"))
    return {pk: _End(at, status) for pk, at, status in rows.values_list("pk", "ended_at", "status")}
