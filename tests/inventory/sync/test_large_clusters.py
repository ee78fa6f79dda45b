"""A sync of a large cluster: as few calls as the pages of AWS allow, and inside its interval."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from connectors.models import Connector
from inventory.models.instances import (
    ContainerInstance,
    EcsServiceEvent,
    EcsServiceRecord,
    ServiceInstance,
    SyncedCluster,
)
from inventory.sync.clusters import list_due_clusters
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SYNC_INTERVAL, SyncScan
from rbac.models import Scope
from tests.inventory.sync.large_cluster import LargeCluster
from web.clock import get_database_time


@pytest.fixture
def cluster(project: Scope, settings: Settings) -> SyncedCluster:
    """A cluster that nobody has looked at, in an account whose limits are far away."""
    settings.AWS_QUOTA_SHARE = 1000.0
    connector = Connector.objects.create(
        scope=project, identifier="aws", name="AWS", spec={"credentials": "InheritFromDelegate"}
    )
    now = get_database_time()
    return SyncedCluster.objects.create(
        connector=connector, region="us-east-1", cluster="large", last_used_at=now, due_at=now
    )


def sync(cluster: SyncedCluster, large_cluster: LargeCluster) -> float:
    """Run one whole sync in slices, and return its processor seconds."""
    cpu_start = time.thread_time()
    SyncedCluster.objects.update(due_at=get_database_time(), synced_at=None)
    while SyncedCluster.objects.get().synced_at is None:
        assert list_due_clusters(get_database_time(), 10) == [cluster.pk]
        run_scan(SyncScan, cluster.pk, lambda *_: large_cluster)
    return time.thread_time() - cpu_start


@pytest.mark.parametrize(("services", "tasks_each"), [(23, 9), pytest.param(500, 20, marks=pytest.mark.soak)])
def test_a_sync_makes_as_few_calls_as_pages_allow(
    cluster: SyncedCluster, services: int, tasks_each: int
) -> None:
    large_cluster = LargeCluster(services, tasks_each, machines=services // 2)
    first = sync(cluster, large_cluster)
    assert large_cluster.calls.total() <= 1.1 * large_cluster.fewest_calls
    assert ServiceInstance.objects.filter(stopped_at=None).count() == services * tasks_each
    assert (
        ContainerInstance.objects.filter(zone="us-east-1b", cpu_left=1024).count() == large_cluster.machines
    )
    assert not ServiceInstance.objects.filter(container_instance=None).exists()
    assert (EcsServiceRecord.objects.count(), EcsServiceEvent.objects.count()) == (services, 3 * services)
    second = sync(cluster, large_cluster)
    assert large_cluster.calls.total() <= 2.2 * large_cluster.fewest_calls
    print(
        f"\n{services} services, {services * tasks_each} tasks: {large_cluster.calls.total() // 2} calls,"
        f" {first:.1f} s at first, {second:.1f} s again"
    )
    assert max(first, second) < SYNC_INTERVAL.total_seconds()


def test_what_is_gone_is_closed_by_a_whole_sync_only(cluster: SyncedCluster) -> None:
    sync(cluster, LargeCluster(12, 10))
    smaller_cluster = LargeCluster(11, 10)
    sync(cluster, smaller_cluster)
    assert EcsServiceRecord.objects.filter(gone_at=None).count() == 11
    stopped_instances = ServiceInstance.objects.exclude(stopped_at=None)
    assert stopped_instances.count() == 10
    assert {instance.ecs_service.name for instance in stopped_instances if instance.ecs_service} == {"s11"}


def test_tasks_of_a_service_that_was_created_during_a_sync_belong_to_it_with_the_next(
    cluster: SyncedCluster,
) -> None:
    class BeforeItsCreation(LargeCluster):
        def _ListServices(self, params: Mapping[str, Any]) -> dict[str, Any]:
            return {"serviceArns": []}

    moment = LargeCluster(1, 2)
    sync(cluster, BeforeItsCreation(1, 2, began=moment.began))
    assert ServiceInstance.objects.filter(ecs_service=None, stopped_at=None).count() == 2
    sync(cluster, moment)
    assert ServiceInstance.objects.filter(ecs_service__name="s0", stopped_at=None).count() == 2
