"""Schedule of the clusters to sync: clusters of infrastructures, and clusters with recent tasks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from catalog.models import Infrastructure
from connectors.models import Connector
from deployments.engine.service_waits import get_batch_key, is_through_delegate
from deployments.models import Execution, StageExecution
from guards.limits import SYNC_SECONDS
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync.announced_changes import list_covered_clusters, mark_changes
from inventory.sync.watched_services import filter_watched_services

IDLE_CLUSTER_RETENTION: Final = timedelta(days=14)
# Longer than a sync and than the gap between ticks after an outage; older ends have been synced.
FOLLOW_UP_WINDOW: Final = timedelta(minutes=15)

# The longest delay of a sync for waiting executions, and the interval of follow-ups meanwhile.
MAX_DEFERRAL: Final = timedelta(minutes=2)
FOLLOW_UP_INTERVAL: Final = timedelta(seconds=30)

SYNC_INTERVAL: Final = timedelta(seconds=60)
REQUEST_INTERVAL: Final = timedelta(seconds=int(SYNC_SECONDS))


def create_clusters(now: datetime) -> int:
    """Create a row, due at once, for each cluster that an infrastructure names."""
    same = SyncedCluster.objects.filter(
        connector=OuterRef("connector"), region=OuterRef("region"), cluster=OuterRef("cluster")
    )
    infrastructures = Infrastructure.objects.filter(connector__kind=Connector.Kind.AWS).exclude(Exists(same))
    rows = [
        SyncedCluster(connector_id=connector, region=region, cluster=cluster, last_used_at=now, due_at=now)
        for connector, region, cluster in infrastructures.values_list(
            "connector", "region", "cluster"
        ).distinct()
        if cluster and "<+" not in cluster + region
    ]
    stopped = SyncedCluster.objects.filter(due_at=None).filter(Exists(_filter_infrastructures()))
    return len(SyncedCluster.objects.bulk_create(rows, ignore_conflicts=True)) + stopped.update(due_at=now)


def schedule_follow_ups(now: datetime) -> int:
    """Make clusters due where a deployment has ended since the start of the last sync.

    This also finds clusters that an infrastructure names by an expression.
    """
    recent = StageExecution.objects.filter(execution__ended_at__gt=now - FOLLOW_UP_WINDOW)
    services: dict[tuple[int, str, str], dict[str, datetime]] = defaultdict(dict)
    for connector, region, cluster, service, ended in (
        recent.values_list("connector", "region", "cluster", "ecs_service")
        .annotate(ended=Max("execution__ended_at"))
        .exclude(cluster="")
        .exclude(region="")
    ):
        if "<+" not in cluster + region:
            services[connector, region, cluster][service] = ended
    ends = {location: max(by_service.values()) for location, by_service in services.items()}
    if not ends:
        return 0
    rows = SyncedCluster.objects.filter(connector__in={connector for connector, _, _ in ends})
    rows = rows.select_related("connector__scope")
    by_location = {(row.connector_id, row.region, row.cluster): row for row in rows}
    outdated = [
        row for key, row in by_location.items() if key in ends and not _is_synced_since(row, ends[key])
    ]
    marked = _mark_deployed_services(outdated, services, now)
    new = [
        SyncedCluster(connector_id=connector, region=region, cluster=cluster, last_used_at=now, due_at=now)
        for connector, region, cluster in ends.keys() - by_location.keys()
    ]
    SyncedCluster.objects.bulk_create(new, ignore_conflicts=True)
    others = [row.pk for row in outdated if row.pk not in marked]
    waiting = SyncedCluster.objects.filter(pk__in=others, failures=0, cursor__isnull=True)
    waiting.filter(follow_up_due_at=None).update(follow_up_due_at=now)
    later = Q(due_at__gt=now) | Q(due_at__isnull=True)
    return len(new) + waiting.filter(later).update(due_at=now, last_used_at=now)


def _mark_deployed_services(
    outdated: Sequence[SyncedCluster],
    services: Mapping[tuple[int, str, str], Mapping[str, datetime]],
    now: datetime,
) -> set[int]:
    """Mark deployed services as changed where events announce everything else; return these clusters."""
    marked: set[int] = set()
    idle = [row for row in outdated if row.is_event_driven and row.cursor is None]
    covered = list_covered_clusters(idle, now)
    for row in idle:
        ends = services[row.connector_id, row.region, row.cluster]
        names = [name for name, ended in ends.items() if not _is_synced_since(row, ended)]
        if row.pk in covered and "" not in names:
            mark_changes(row, {(name, ""): 0 for name in names}, now)
            marked.add(row.pk)
    return marked


def schedule_usual_syncs(now: datetime) -> int:
    """Return clusters whose events stopped, or that somebody watches, to the usual interval."""
    idle = SyncedCluster.objects.filter(is_event_driven=True, cursor__isnull=True, failures=0)
    clusters = list(idle.filter(due_at__gt=now).select_related("connector__scope"))
    if not clusters:
        return 0
    covered = list_covered_clusters(clusters, now)
    watched = set(filter_watched_services(idle, now).values_list("cluster", flat=True))
    due = 0
    for cluster in clusters:
        due_at = max(now, (cluster.synced_at or now) + SYNC_INTERVAL)
        if cluster.pk in covered and cluster.pk not in watched:
            continue
        later = SyncedCluster.objects.filter(pk=cluster.pk, cursor__isnull=True, due_at__gt=due_at)
        due += later.update(due_at=due_at)
    return due


def _is_synced_since(row: SyncedCluster, moment: datetime) -> bool:
    """Return whether the last whole sync started after `moment`."""
    return row.synced_at is not None and row.synced_at - timedelta(seconds=row.seconds or 0) > moment


def _filter_infrastructures() -> QuerySet[Infrastructure]:
    return Infrastructure.objects.filter(
        connector=OuterRef("connector"), region=OuterRef("region"), cluster=OuterRef("cluster")
    )


def build_unleased_filter(now: datetime) -> Q:
    """Filter rows of scans that no worker has leased."""
    return Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)


def list_due_clusters(now: datetime, limit: int) -> list[int]:
    """Return the keys of due clusters without a lease, the longest waiting first.

    A sync is deferred while executions wait there, since the engine reads the same services.
    """
    rows = SyncedCluster.objects.filter(build_unleased_filter(now), due_at__lte=now)
    candidates = list(rows.order_by("due_at").select_related("connector")[:limit])
    batches = {get_batch_key(row): row.pk for row in candidates if _is_deferrable(row, now)}
    # Reads through a delegate are of one execution each, and no sync reuses them.
    deferrable = {key: pk for key, pk in batches.items() if not is_through_delegate(key)}
    waiting = Execution.objects.filter(due_at__isnull=False, batch_key__in=deferrable).exclude(
        waits_for_service=""
    )
    deferred = {deferrable[group] for group in waiting.values_list("batch_key", flat=True).distinct()}
    return [row.pk for row in candidates if row.pk not in deferred]


def _is_deferrable(row: SyncedCluster, now: datetime) -> bool:
    """Return whether a sync may be deferred: no user requested it, and the last one is recent."""
    if row.synced_at is None or row.due_at is None or row.failures or row.cursor is not None:
        return False
    if row.sync_requested_at is not None and row.sync_requested_at > row.synced_at:
        return False
    if row.follow_up_due_at is not None and row.synced_at < now - FOLLOW_UP_INTERVAL:
        return False
    return row.due_at > now - MAX_DEFERRAL


def filter_unused_clusters() -> QuerySet[SyncedCluster]:
    """Filter clusters to sync, without infrastructure, that ran nothing for two weeks."""
    recent = ServiceInstance.objects.filter(cluster=OuterRef("pk")).filter(
        Q(stopped_at__isnull=True) | Q(stopped_at__gt=Now() - IDLE_CLUSTER_RETENTION)
    )
    return (
        SyncedCluster.objects.filter(due_at__isnull=False)
        .exclude(Exists(_filter_infrastructures()))
        .exclude(Exists(recent))
    )


def advance_due_date(cluster: SyncedCluster, now: datetime) -> None:
    """Bring the next sync forward, at most once in `REQUEST_INTERVAL`."""
    due_at = max(now, cluster.sync_requested_at + REQUEST_INTERVAL) if cluster.sync_requested_at else now
    # A policy may have been fixed, so denied reads are tried again.
    columns: dict[str, Any] = {
        "denied_reads": [],
        "scaling_read_at": None,
        "daemons_read_at": None,
        "sync_requested_at": due_at,
        "last_used_at": now,
        "follow_up_due_at": None,
    }
    later = Q(due_at__gt=due_at) | Q(due_at__isnull=True)
    SyncedCluster.objects.filter(later, pk=cluster.pk).update(due_at=due_at, **columns)
    cluster.refresh_from_db()
