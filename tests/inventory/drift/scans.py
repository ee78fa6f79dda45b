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


def sync_cluster() -> SyncedCluster:
    """Run a whole sync of the only cluster, and return it."""
    # The story's clock is ahead: what it drew from AWS's quota is in the future of this one.
    rate_limits.reset_buckets()
    create_clusters(get_database_time())
    SyncedCluster.objects.update(due_at=get_database_time())
    cluster = SyncedCluster.objects.get()
    run_scan(SyncScan, cluster.pk)
    cluster.refresh_from_db()
    assert cluster.failure == ""
    _advance_sync_time()
    return cluster


def _advance_sync_time() -> None:
    """Set the time of the last sync by the clock of the story, which is ahead of this one."""
    EcsServiceRecord.objects.update(seen_at=get_story_time())


def get_story_time() -> datetime:
    """Return a moment after the end of all steps and executions."""
    steps, executions = StepExecution.objects, Execution.objects
    end_times = [steps.aggregate(at=Max("ended_at"))["at"], executions.aggregate(at=Max("ended_at"))["at"]]
    return max([get_database_time(), *(end for end in end_times if end)])


def request_scan(cluster: SyncedCluster) -> ClusterDriftScan:
    """Create a scan that starts now, by the clock of the story."""
    scan = clusters.advance_due_date(cluster, get_database_time())
    cursor = create_cursor(cluster, get_story_time()).to_row()
    ClusterDriftScan.objects.filter(pk=scan.pk, cursor__isnull=True).update(cursor=cursor)
    return scan


def scan_after_sync() -> ClusterDriftScan:
    """Run a whole sync and a whole scan of the only cluster."""
    return run_whole_scan(sync_cluster())


def run_whole_scan(cluster: SyncedCluster) -> ClusterDriftScan:
    """Run a complete scan, and return its row."""
    rate_limits.reset_buckets()
    clusters.create_cluster_scans(get_database_time())
    scan = request_scan(cluster)
    run_scan(drift_scan.DriftScan, scan.pk)
    scan.refresh_from_db()
    assert (scan.failure, scan.cursor) == ("", None)
    return scan


def list_drifts() -> list[str]:
    """Return the open drifts after a scan."""
    scan_after_sync()
    return sorted(f"{drift.document}:{drift.path}" for drift in Drift.objects.filter(resolved_at=None))


def get_state(name: str = "myapp") -> str:
    return DriftComparison.objects.get(ecs_service__name=name).state
