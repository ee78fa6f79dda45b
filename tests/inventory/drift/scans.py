"""One whole sync and one whole look for drift."""

from datetime import datetime

from django.db.models import Max

from deployments.journal import rate_limits
from deployments.models import Execution, StepExecution
from inventory.drift import clusters, drift_scan
from inventory.drift.cursor import create_cursor
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.clusters import create_clusters
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from web.clock import get_database_time


def synced() -> SyncedCluster:
    """The only cluster after a whole sync."""
    # The story's clock is ahead: what it drew from AWS's quota is in the future of this one.
    rate_limits.reset_buckets()
    create_clusters(get_database_time())
    SyncedCluster.objects.update(due_at=get_database_time())
    cluster = SyncedCluster.objects.get()
    run_scan(SyncScan, cluster.pk)
    cluster.refresh_from_db()
    assert cluster.failure == ""
    _after_the_story()
    return cluster


def _after_the_story() -> None:
    """Its clock is ahead: to this one, sync has looked before the last execution has ended."""
    EcsServiceRecord.objects.update(seen_at=story_now())


def story_now() -> datetime:
    """Return a moment after the end of all steps and executions."""
    steps, executions = StepExecution.objects, Execution.objects
    ends = [steps.aggregate(at=Max("ended_at"))["at"], executions.aggregate(at=Max("ended_at"))["at"]]
    return max([get_database_time(), *(end for end in ends if end)])


def asked_for(cluster: SyncedCluster) -> ClusterDriftScan:
    """Create a scan that starts now, by the clock of the story."""
    scan = clusters.advance_due_date(cluster, get_database_time())
    begun = create_cursor(cluster, story_now()).to_row()
    ClusterDriftScan.objects.filter(pk=scan.pk, cursor__isnull=True).update(cursor=begun)
    return scan


def compared() -> ClusterDriftScan:
    """The only cluster after a whole sync and a whole look."""
    return looked_at(synced())


def looked_at(cluster: SyncedCluster) -> ClusterDriftScan:
    """Run a complete scan, and return its row."""
    rate_limits.reset_buckets()
    clusters.create_cluster_scans(get_database_time())
    scan = asked_for(cluster)
    run_scan(drift_scan.DriftScan, scan.pk)
    scan.refresh_from_db()
    assert (scan.failure, scan.cursor) == ("", None)
    return scan


def drifts() -> list[str]:
    """Return the open drifts after a scan."""
    compared()
    return sorted(f"{drift.document}:{drift.path}" for drift in Drift.objects.filter(resolved_at=None))


def state(name: str = "myapp") -> str:
    return DriftComparison.objects.get(ecs_service__name=name).state
