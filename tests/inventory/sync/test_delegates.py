"""A sync whose connector goes through delegates: a task for each call, a reason where nobody makes it."""

import pytest

from connectors.models import Connector
from delegates.models import DelegateTask
from delegates.task_queue import route_waiting_tasks
from deployments.journal import rate_limits
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync.clusters import create_clusters, list_due_clusters
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cluster(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> SyncedCluster:
    """The demo's cluster with one task, reached by delegates only."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    drive.run("1.27")
    # The story's clock is ahead: what it drew from AWS's quota is in the future of this one.
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
    create_clusters(get_database_time())
    return SyncedCluster.objects.get()


def sync_with_delegate(cluster: SyncedCluster, hand_agent: Hand) -> None:
    for _ in range(20):
        if list_due_clusters(get_database_time(), 1):
            run_scan(SyncScan, cluster.pk)
        hand_agent.serve()
        cluster.refresh_from_db()
        if cluster.synced_at:
            return
    raise AssertionError(f"still at {cluster.cursor}: {cluster.failure}")


def test_each_call_is_a_task_of_a_delegate_and_one_that_is_lost_is_made_by_the_next(
    cluster: SyncedCluster,
) -> None:
    first = hand("first", tags=("eu",))
    run_scan(SyncScan, cluster.pk)
    route_waiting_tasks(get_database_time())
    task = first.take()
    assert task is not None
    assert not list_due_clusters(get_database_time(), 1), "while a delegate has the call nobody else makes it"
    first.instance.delegate.admission = "DISABLED"
    first.instance.delegate.save()
    second = hand("second", tags=("eu",), hostname="ip-10-0-1-8")
    first.lose(task)
    sync_with_delegate(cluster, second)
    assert second.taken_operations == [
        "ListServices",
        "DescribeServices",
        "DescribeScalableTargets",
        "ListTasks",
        "DescribeTasks",
        "ListTasks",
    ]
    assert ServiceInstance.objects.get().image.endswith("nginx:1.27")
    assert not DelegateTask.objects.filter(owner="sync").exclude(result="").exists()


def test_a_cluster_says_that_no_delegate_has_the_tags_and_is_tried_later(
    cluster: SyncedCluster,
) -> None:
    hand("other", tags=("us",))
    run_scan(SyncScan, cluster.pk)
    route_waiting_tasks(get_database_time())
    cluster.refresh_from_db()
    assert "eu" in cluster.failure
    assert cluster.failures == 1
    assert cluster.due_at is not None
    assert cluster.due_at > get_database_time()


def test_a_sync_is_made_by_delegates_of_the_account_of_the_one_before(cluster: SyncedCluster) -> None:
    sync_with_delegate(cluster, hand("here", tags=("eu",)))
    assert cluster.account == "123456789012"
    SyncedCluster.objects.update(due_at=get_database_time())
    run_scan(SyncScan, cluster.pk)
    task = DelegateTask.objects.latest("queued_at")
    assert task.aws_account == "123456789012"
    cluster.connector.save()
    SyncedCluster.objects.update(due_at=get_database_time(), lease_expires_at=None, task=None, cursor=None)
    run_scan(SyncScan, cluster.pk)
    task = DelegateTask.objects.latest("queued_at")
    assert task.aws_account == "", "the connector may lead to another account by now"


def test_a_sync_tells_the_account_that_its_connector_leads_to_by_now(cluster: SyncedCluster) -> None:
    SyncedCluster.objects.update(account="999999999999")
    sync_with_delegate(cluster, hand("here", tags=("eu",)))
    assert cluster.account == "123456789012"
