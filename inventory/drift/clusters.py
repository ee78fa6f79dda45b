"""Schedule of clusters to scan for drift: those that sync has read and that hold comparable services."""

from datetime import datetime
from typing import Final

from django.db.models import Exists, F, OuterRef, Q

from deployments.models import StageExecution
from inventory.models.adoption import Adoption
from inventory.models.drift import ClusterDriftScan
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.clusters import FOLLOW_UP_WINDOW
from inventory.sync.pauses import FIRST_PAUSE, allow_trial, end_pause

# Of the chains that look for drift, as delegate tasks and shared pauses name them.
DRIFT_OWNER: Final = "drift"


def create_cluster_scans(now: datetime) -> int:
    """Make a row for each synced cluster with something to compare that has none; they are due at once."""
    ours = EcsServiceRecord.objects.filter(cluster=OuterRef("pk"), gone_at=None).filter(
        Q(service__isnull=False) | Exists(Adoption.objects.filter(ecs_service=OuterRef("pk")))
    )
    rows = SyncedCluster.objects.filter(Exists(ours), synced_at__isnull=False, drift_scan=None)
    made = [ClusterDriftScan(cluster=cluster, due_at=now) for cluster in rows]
    return len(ClusterDriftScan.objects.bulk_create(made, ignore_conflicts=True))


def schedule_follow_ups(now: datetime) -> int:
    """Look at once where sync has seen what a deployment left that has ended since the last look."""
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


def list_due_clusters(now: datetime, most: int) -> list[int]:
    """The keys of clusters that are due and in nobody's hands, the longest waiting first.

    Where sync has seen nothing new since the last look, there is nothing new to compare.
    """
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)
    seen = Q(compared_at=None) | Q(compared_at__lt=F("cluster__synced_at"))
    rows = ClusterDriftScan.objects.filter(
        free, seen, due_at__lte=now, cluster__due_at__isnull=False
    ).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:most])


def lift_drift_pause(compared: ClusterDriftScan, now: datetime) -> None:
    """A look went well: those that rested with it go on at once."""
    cluster = compared.cluster
    if not end_pause(cluster, DRIFT_OWNER):
        return
    same = Q(cluster__connector=cluster.connector_id)
    if cluster.account:
        same |= Q(cluster__account=cluster.account)
    resting = ClusterDriftScan.objects.filter(
        same, cluster__region=cluster.region, lease_expires_at=None, due_at__gt=now
    )
    # Whoever came while the others rested has not failed itself.
    resting.exclude(failures=0, compared_at__gt=now - FIRST_PAUSE).update(due_at=now)


def advance_due_date(cluster: SyncedCluster, now: datetime) -> ClusterDriftScan:
    """Bring the next look at a cluster forward: the rows are compared as they are."""
    allow_trial(cluster, now, DRIFT_OWNER)
    compared, is_new = ClusterDriftScan.objects.get_or_create(cluster=cluster, defaults={"due_at": now})
    if not is_new:
        ClusterDriftScan.objects.filter(pk=compared.pk, cursor__isnull=True).update(
            due_at=now, compared_at=None
        )
        # One that rests half way goes on from there.
        ClusterDriftScan.objects.filter(pk=compared.pk, due_at__gt=now).update(due_at=now)
    return compared
