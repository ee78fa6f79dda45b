"""A look whose connector goes through delegates: a task for each call, a reason where nobody makes it."""

import pytest

from connectors.models import Connector
from delegates.models import DelegateTask
from delegates.task_queue import route_waiting_tasks
from deployments.journal import rate_limits
from inventory.drift import clusters, drift_scan
from inventory.drift.cursor import create_cursor
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord, SyncPause
from inventory.sync.pauses import list_pause_keys
from inventory.sync.scans.runner import run_scan
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from tests.inventory.drift.scans import get_story_time, request_scan, sync_cluster
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def remote_scan(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> ClusterDriftScan:
    """The demo's cluster with one change made outside, synced, and from now on reached by delegates only."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    drive.run("1.27")
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "enableExecuteCommand": True})
    cluster = sync_cluster()
    rate_limits.reset_buckets()
    connector = Connector.objects.get(identifier="sandbox_aws")
    connector.secret = None
    connector.spec = {
        "endpoint_url": connector.spec["endpoint_url"],
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": ["eu"],
    }
    connector.save()
    return request_scan(cluster)


def scan_with_delegate(scan: ClusterDriftScan, hand_agent: Hand) -> None:
    for _ in range(10):
        run_scan(drift_scan.DriftScan, scan.pk)
        hand_agent.serve()
        scan.refresh_from_db()
        if scan.compared_at:
            return
    raise AssertionError(f"still at {scan.cursor}: {scan.failure}")


def test_a_delegate_reads_what_scales_and_the_change_is_named(remote_scan: ClusterDriftScan) -> None:
    eu_hand = hand("first", tags=("eu",))
    scan_with_delegate(remote_scan, eu_hand)
    assert eu_hand.taken_operations == ["DescribeScalableTargets"]
    assert [row.path for row in Drift.objects.all()] == ["enableExecuteCommand"]
    assert DriftComparison.objects.get().state == DriftComparison.State.DRIFTED
    assert not DelegateTask.objects.filter(owner="drift").exclude(result="").exists()


def test_who_tries_for_all_that_rest_makes_call_after_call(remote_scan: ClusterDriftScan) -> None:
    family = EcsServiceRecord.objects.get().task_definition.rpartition(":")[0]
    EcsServiceRecord.objects.update(task_definition=f"{family}:99")
    cursor = create_cursor(remote_scan.cluster, get_story_time()).to_row()
    ClusterDriftScan.objects.update(cursor=cursor)
    now = get_database_time()
    for key in list_pause_keys(remote_scan.cluster, clusters.DRIFT_OWNER):
        SyncPause.objects.create(
            key=key, paused_until=now, failures=1, failed_at=now, failure="No delegate was there."
        )
    eu_hand = hand("first", tags=("eu",))
    scan_with_delegate(remote_scan, eu_hand)
    assert eu_hand.taken_operations == ["DescribeScalableTargets", "DescribeTaskDefinition"]
    assert not SyncPause.objects.exists()


def test_a_cluster_says_that_no_delegate_has_the_tags_and_is_tried_later(
    remote_scan: ClusterDriftScan,
) -> None:
    hand("other", tags=("us",))
    run_scan(drift_scan.DriftScan, remote_scan.pk)
    route_waiting_tasks(get_database_time())
    remote_scan.refresh_from_db()
    assert "eu" in remote_scan.failure
    assert remote_scan.failures == 1
    assert remote_scan.due_at > get_database_time()
