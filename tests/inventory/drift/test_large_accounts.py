"""Looks at many ECS services in several accounts and regions: as few calls as the pages of AWS allow."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from aws.caller import Caller
from connectors.models import Connector
from inventory.drift import clusters
from inventory.drift.drift_scan import SCAN_INTERVAL, DriftScan
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.models.instances import SyncedCluster
from inventory.sync.clusters import create_clusters
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from rbac.models import Scope
from tests.inventory.drift.large_account import Account, create_infrastructure
from web.clock import get_database_time


@dataclass
class ScanCost:
    """What one look at all of them took: processor seconds and queries."""

    seconds: float
    queries: int


@dataclass
class World:
    """Clusters in several accounts and regions, and the account that each is in."""

    accounts: dict[tuple[str, str], Account]

    def get_caller(self, connector: Connector, region: str) -> Caller:
        return self.accounts[connector.identifier, region]

    def sync_all(self) -> None:
        create_clusters(get_database_time())
        SyncedCluster.objects.update(due_at=get_database_time())
        for pk in SyncedCluster.objects.values_list("pk", flat=True):
            run_scan(SyncScan, pk, self.get_caller)
        assert not SyncedCluster.objects.filter(synced_at=None).exists()

    def scan_all(self) -> ScanCost:
        """Run one whole scan of each cluster."""
        clusters.create_cluster_scans(get_database_time())
        ClusterDriftScan.objects.update(due_at=get_database_time(), compared_at=None)
        cpu_start = time.thread_time()
        with CaptureQueriesContext(connection) as queries:
            for pk in clusters.list_due_clusters(get_database_time(), 100):
                run_scan(DriftScan, pk, self.get_caller)
        assert not ClusterDriftScan.objects.filter(compared_at=None).exists()
        return ScanCost(time.thread_time() - cpu_start, len(queries))

    def count_calls(self, operations: Sequence[str]) -> int:
        return sum(account.calls[operation] for account in self.accounts.values() for operation in operations)


SCAN_OPERATIONS = ("DescribeScalableTargets", "DescribeScalingPolicies", "DescribeTaskDefinition")


def create_world(project: Scope, sizes: Sequence[int], tasks_per_service: int = 1) -> World:
    """Create a cluster of each of these sizes, in two accounts with two regions each."""
    accounts = {}
    for number, size in enumerate(sizes):
        account = Account(
            size,
            tasks_per_service,
            account=("123456789012", "210987654321")[number % 2],
            region=("us-east-1", "eu-west-1")[number // 2],
        )
        infrastructure = create_infrastructure(project, account)
        accounts[infrastructure.connector.identifier, account.region] = account
    return World(accounts)


@pytest.mark.parametrize(
    "sizes", [(60, 23, 9), pytest.param((200, 150, 100, 50), marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_a_look_makes_as_few_calls_as_pages_allow(
    project: Scope, settings: Settings, sizes: tuple[int, ...]
) -> None:
    settings.AWS_QUOTA_SHARE = 1000.0
    account_world = create_world(project, sizes)
    account_world.sync_all()
    for account in account_world.accounts.values():
        account.calls.clear()
    fewest_calls = sum(account.fewest_looks for account in account_world.accounts.values())
    revisions = sum(len(account.foreign_names) for account in account_world.accounts.values())
    first = account_world.scan_all()
    assert account_world.count_calls(SCAN_OPERATIONS) <= 1.1 * (fewest_calls + revisions)
    assert account_world.count_calls(["DescribeTaskDefinition"]) == revisions
    assert DriftComparison.objects.filter(state=DriftComparison.State.DRIFTED).count() == revisions
    assert (
        DriftComparison.objects.filter(state=DriftComparison.State.IN_STEP).count() == sum(sizes) - revisions
    )
    assert {row.path for row in Drift.objects.all()} == {"cpu"}
    assert all(row.attribution.endswith("not registered by Slipway.") for row in Drift.objects.all())
    second = account_world.scan_all()
    assert account_world.count_calls(SCAN_OPERATIONS) <= 1.1 * (2 * fewest_calls + revisions), (
        "a revision is described once for ever"
    )
    assert account_world.count_calls(["DescribeTaskDefinition"]) == revisions
    first_calls = account_world.count_calls(SCAN_OPERATIONS) - fewest_calls
    print(
        f"\n{sum(sizes)} services, {len(sizes)} clusters: {first_calls} calls at first,"
        f" {fewest_calls} again; {first.seconds:.2f} s and {first.queries} queries at first,"
        f" {second.seconds:.2f} s and {second.queries} again"
    )
    assert max(first.seconds, second.seconds) < SCAN_INTERVAL.total_seconds() / 10


def test_the_queries_of_a_look_do_not_grow_with_what_it_looks_at(project: Scope, settings: Settings) -> None:
    settings.AWS_QUOTA_SHARE = 1000.0
    account_world = create_world(project, (4, 45))
    account_world.sync_all()
    query_counts = []
    for account in account_world.accounts.values():
        account.scaled = 1000
    account_world.scan_all()
    for pk in ClusterDriftScan.objects.order_by("pk").values_list("pk", flat=True):
        ClusterDriftScan.objects.filter(pk=pk).update(due_at=get_database_time(), compared_at=None)
        with CaptureQueriesContext(connection) as queries:
            run_scan(DriftScan, pk, account_world.get_caller)
        query_counts.append(len(queries))
    assert query_counts[0] == query_counts[1]
