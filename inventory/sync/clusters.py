"""Schedule of clusters to sync: those of infrastructures, and those whose tasks ran lately."""

from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from catalog.models import Infrastructure
from connectors.models import Connector
from deployments.engine.service_waits import get_batch_key
from deployments.models import Execution, StageExecution
from guards.limits import SYNC_SECONDS
from inventory.models.instances import ServiceInstance, SyncedCluster

IDLE_CLUSTER_RETENTION: Final = timedelta(days=14)
# Longer than a sync takes, and than ticks are apart after an outage; what ended before that has been seen.
FOLLOW_UP_WINDOW: Final = timedelta(minutes=15)

# How long a sync waits at most for executions that wait there, and how far apart the follow-ups of their
# ends are meanwhile.
MAX_DEFERRAL: Final = timedelta(minutes=2)
FOLLOW_UP_INTERVAL: Final = timedelta(seconds=30)

REQUEST_INTERVAL: Final = timedelta(seconds=int(SYNC_SECONDS))


def create_clusters(now: datetime) -> int:
    """Make a row for each cluster that an infrastructure names and that has none; they are due at once."""
    same = SyncedCluster.objects.filter(
        connector=OuterRef("connector"), region=OuterRef("region"), cluster=OuterRef("cluster")
    )
    named = Infrastructure.objects.filter(connector__kind=Connector.Kind.AWS).exclude(Exists(same))
    rows = [
        SyncedCluster(connector_id=connector, region=region, cluster=cluster, last_used_at=now, due_at=now)
        for connector, region, cluster in named.values_list("connector", "region", "cluster").distinct()
        if cluster and "<+" not in cluster + region
    ]
    given_up = SyncedCluster.objects.filter(due_at=None).filter(Exists(_filter_infrastructures()))
    return len(SyncedCluster.objects.bulk_create(rows, ignore_conflicts=True)) + given_up.update(due_at=now)


def schedule_follow_ups(now: datetime) -> int:
    """Look at once where a deployment has ended since the last look began; also where none has looked yet.

    So clusters are found too that an infrastructure names by an expression, or that a run has made.
    """
    lately = StageExecution.objects.filter(execution__ended_at__gt=now - FOLLOW_UP_WINDOW)
    ends: dict[tuple[int, str, str], datetime] = {
        (connector, region, cluster): ended
        for connector, region, cluster, ended in lately.values_list("connector", "region", "cluster")
        .annotate(ended=Max("execution__ended_at"))
        .exclude(cluster="")
        .exclude(region="")
        if "<+" not in cluster + region
    }
    if not ends:
        return 0
    rows = SyncedCluster.objects.filter(connector__in={connector for connector, _, _ in ends})
    known = {(row.connector_id, row.region, row.cluster): row for row in rows}
    late = [row.pk for key, row in known.items() if key in ends and not _is_synced_since(row, ends[key])]
    new = [
        SyncedCluster(connector_id=connector, region=region, cluster=cluster, last_used_at=now, due_at=now)
        for connector, region, cluster in ends.keys() - known.keys()
    ]
    SyncedCluster.objects.bulk_create(new, ignore_conflicts=True)
    waiting = SyncedCluster.objects.filter(pk__in=late, failures=0, cursor__isnull=True)
    waiting.filter(follow_up_due_at=None).update(follow_up_due_at=now)
    later = Q(due_at__gt=now) | Q(due_at__isnull=True)
    return len(new) + waiting.filter(later).update(due_at=now, last_used_at=now)


def _is_synced_since(row: SyncedCluster, moment: datetime) -> bool:
    """Whether the last whole sync began after that moment."""
    return row.synced_at is not None and row.synced_at - timedelta(seconds=row.seconds or 0) > moment


def _filter_infrastructures() -> QuerySet[Infrastructure]:
    return Infrastructure.objects.filter(
        connector=OuterRef("connector"), region=OuterRef("region"), cluster=OuterRef("cluster")
    )


def list_due_clusters(now: datetime, most: int) -> list[int]:
    """The keys of clusters whose sync is due and in nobody's hands, the longest waiting first.

    Where executions wait for ECS services, a sync would read what the engine reads: it comes later.
    """
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)
    rows = SyncedCluster.objects.filter(free, due_at__lte=now).order_by("due_at").select_related("connector")
    candidates = list(rows[:most])
    patient = {get_batch_key(row): row.pk for row in candidates if _is_deferrable(row, now)}
    waited_for = Execution.objects.filter(look_at__isnull=False, group__in=patient).exclude(awaits="")
    held = {patient[group] for group in waited_for.values_list("group", flat=True).distinct()}
    return [row.pk for row in candidates if row.pk not in held]


def _is_deferrable(row: SyncedCluster, now: datetime) -> bool:
    """Whether a sync may come later while executions wait there: nobody asked, and the last is recent."""
    if row.synced_at is None or row.due_at is None or row.failures or row.cursor is not None:
        return False
    if row.sync_requested_at is not None and row.sync_requested_at > row.synced_at:
        return False
    if row.follow_up_due_at is not None and row.synced_at < now - FOLLOW_UP_INTERVAL:
        return False
    return row.due_at > now - MAX_DEFERRAL


def stop_unused_clusters(now: datetime) -> int:
    """Stop with clusters that no infrastructure names and where nothing has run for two weeks."""
    lately = ServiceInstance.objects.filter(cluster=OuterRef("pk")).filter(
        Q(stopped_at__isnull=True) | Q(stopped_at__gt=now - IDLE_CLUSTER_RETENTION)
    )
    idle = (
        SyncedCluster.objects.exclude(Exists(_filter_infrastructures()))
        .exclude(Exists(lately))
        .filter(due_at__isnull=False, last_used_at__lt=now - IDLE_CLUSTER_RETENTION)
    )
    return idle.update(due_at=None)


def advance_due_date(cluster: SyncedCluster, now: datetime) -> None:
    """Bring the next sync of a cluster forward: somebody wants to see it as it is now.

    However often somebody asks, one look begins in `REQUEST_INTERVAL`.
    """
    soonest = max(now, cluster.sync_requested_at + REQUEST_INTERVAL) if cluster.sync_requested_at else now
    # It may have been allowed meanwhile what a policy denied.
    told: dict[str, Any] = {
        "denied_reads": [],
        "scaling_read_at": None,
        "sync_requested_at": soonest,
        "last_used_at": now,
        "follow_up_due_at": None,
    }
    later = Q(due_at__gt=soonest) | Q(due_at__isnull=True)
    SyncedCluster.objects.filter(later, pk=cluster.pk).update(due_at=soonest, **told)
    cluster.refresh_from_db()
