"""Schedule of the clusters to scan for drift."""

from datetime import datetime
from typing import Final

from django.db.models import Exists, F, OuterRef, Q

from deployments.models import StageExecution
from inventory.models.adoption import Adoption
from inventory.models.drift import ClusterDriftScan
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.clusters import FOLLOW_UP_WINDOW, build_unleased_filter
from inventory.sync.pauses import FIRST_PAUSE, allow_trial, end_pause, list_pause_sharers

# The owner of drift scans in delegate tasks and shared pauses.
DRIFT_OWNER: Final = "drift"


def create_cluster_scans(now: datetime) -> int:
    """Create a scan, due at once, for each synced cluster with comparable services."""
    comparable = EcsServiceRecord.objects.filter(cluster=OuterRef("pk"), gone_at=None).filter(
        Q(service__isnull=False) | Exists(Adoption.objects.filter(ecs_service=OuterRef("pk")))
    )
    rows = SyncedCluster.objects.filter(Exists(comparable), synced_at__isnull=False, drift_scan=None)
    scans = [ClusterDriftScan(cluster=cluster, due_at=now) for cluster in rows]
    return len(ClusterDriftScan.objects.bulk_create(scans, ignore_conflicts=True))


def schedule_follow_ups(now: datetime) -> int:
    """Make clusters due where sync has read the result of a deployment after the last scan."""
    ended = StageExecution.objects.filter(
        connector=OuterRef("cluster__connector"),
        region=OuterRef("cluster__region"),
        cluster=OuterRef("cluster__cluster"),
        execution__ended_at__gt=now - FOLLOW_UP_WINDOW,
    ).filter(execution__ended_at__gt=OuterRef("compared_at"))
    waiting = ClusterDriftScan.objects.filter(
        Exists(ended),
        due_at__gt=now,
        failures=0,
        cursor__isnull=True,
        cluster__synced_at__gt=F("compared_at"),
    )
    return waiting.update(due_at=now)


def list_due_clusters(now: datetime, limit: int) -> list[int]:
    """Return the keys of due clusters without a lease, the longest waiting first.

    Clusters that sync has not read since their last scan are skipped.
    """
    is_outdated = Q(compared_at=None) | Q(compared_at__lt=F("cluster__synced_at"))
    rows = ClusterDriftScan.objects.filter(
        build_unleased_filter(now), is_outdated, due_at__lte=now, cluster__due_at__isnull=False
    ).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:limit])


def lift_drift_pause(scan: ClusterDriftScan, now: datetime) -> None:
    """End the shared pause after a successful scan; the other clusters become due at once."""
    cluster = scan.cluster
    if not end_pause(cluster, DRIFT_OWNER):
        return
    paused = ClusterDriftScan.objects.filter(
        cluster__in=list_pause_sharers(cluster), lease_expires_at=None, due_at__gt=now
    )
    # Clusters that joined during the pause have not failed themselves.
    paused.exclude(failures=0, compared_at__gt=now - FIRST_PAUSE).update(due_at=now)


def advance_due_date(cluster: SyncedCluster, now: datetime) -> ClusterDriftScan:
    """Bring the next scan of a cluster forward."""
    allow_trial(cluster, now, DRIFT_OWNER)
    scan, is_created = ClusterDriftScan.objects.get_or_create(cluster=cluster, defaults={"due_at": now})
    if not is_created:
        ClusterDriftScan.objects.filter(pk=scan.pk, cursor__isnull=True).update(due_at=now, compared_at=None)
        # A paused scan continues from its cursor.
        ClusterDriftScan.objects.filter(pk=scan.pk, due_at__gt=now).update(due_at=now)
    return scan
