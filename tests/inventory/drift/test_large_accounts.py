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
from tests.inventory.drift.large_account import Account, place
from web.clock import get_database_time


@dataclass
class Spent:
    """What one look at all of them took: processor seconds and queries."""

    seconds: float
    queries: int


@dataclass
class World:
    """Clusters in several accounts and regions, and the account that each is in."""

    accounts: dict[tuple[str, str], Account]

    def door(self, connector: Connector, region: str) -> Caller:
        return self.accounts[connector.identifier, region]

    def synced(self) -> None:
        create_clusters(get_database_time())
        SyncedCluster.objects.update(due_at=get_database_time())
        for pk in SyncedCluster.objects.values_list("pk", flat=True):
            run_scan(SyncScan, pk, self.door)
        assert not SyncedCluster.objects.filter(synced_at=None).exists()

    def looked(self) -> Spent:
        """One whole look at each of them."""
        clusters.create_cluster_scans(get_database_time())
        ClusterDriftScan.objects.update(due_at=get_database_time(), compared_at=None)
        began = time.thread_time()
        with CaptureQueriesContext(connection) as queries:
            for pk in clusters.list_due_clusters(get_database_time(), 100):
                run_scan(DriftScan, pk, self.door)
        assert not ClusterDriftScan.objects.filter(compared_at=None).exists()
        return Spent(time.thread_time() - began, len(queries))

    def calls(self, operations: Sequence[str]) -> int:
        return sum(account.calls[one] for account in self.accounts.values() for one in operations)


LOOKS = ("DescribeScalableTargets", "DescribeScalingPolicies", "DescribeTaskDefinition")


def world(project: Scope, sizes: Sequence[int], tasks_each: int = 1) -> World:
    """A cluster of each of these sizes, in two accounts of two regions each."""
    accounts = {}
    for number, size in enumerate(sizes):
        account = Account(
            size,
            tasks_each,
            account=("123456789012", "210987654321")[number % 2],
            region=("us-east-1", "eu-west-1")[number // 2],
        )
        found = place(project, account)
        accounts[found.connector.identifier, account.region] = account
    return World(accounts)


@pytest.mark.parametrize(
    "sizes", [(60, 23, 9), pytest.param((200, 150, 100, 50), marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_a_look_makes_as_few_calls_as_pages_allow(
    project: Scope, settings: Settings, sizes: tuple[int, ...]
) -> None:
    settings.AWS_QUOTA_SHARE = 1000.0
    made = world(project, sizes)
    made.synced()
    for account in made.accounts.values():
        account.calls.clear()
    fewest = sum(account.fewest_looks for account in made.accounts.values())
    revisions = sum(len(account.foreign_names) for account in made.accounts.values())
    first = made.looked()
    assert made.calls(LOOKS) <= 1.1 * (fewest + revisions)
    assert made.calls(["DescribeTaskDefinition"]) == revisions
    assert DriftComparison.objects.filter(state=DriftComparison.State.DRIFTED).count() == revisions
    assert (
        DriftComparison.objects.filter(state=DriftComparison.State.IN_STEP).count() == sum(sizes) - revisions
    )
    assert {one.path for one in Drift.objects.all()} == {"cpu"}
    assert all(one.attribution.endswith("not registered by Slipway.") for one in Drift.objects.all())
    second = made.looked()
    assert made.calls(LOOKS) <= 1.1 * (2 * fewest + revisions), "a revision is described once for ever"
    assert made.calls(["DescribeTaskDefinition"]) == revisions
    print(
        f"\n{sum(sizes)} services, {len(sizes)} clusters: {made.calls(LOOKS) - fewest} calls at first,"
        f" {fewest} again; {first.seconds:.2f} s and {first.queries} queries at first,"
        f" {second.seconds:.2f} s and {second.queries} again"
    )
    assert max(first.seconds, second.seconds) < SCAN_INTERVAL.total_seconds() / 10


def test_the_queries_of_a_look_do_not_grow_with_what_it_looks_at(project: Scope, settings: Settings) -> None:
    settings.AWS_QUOTA_SHARE = 1000.0
    made = world(project, (4, 45))
    made.synced()
    spent = []
    for account in made.accounts.values():
        account.scaled = 1000
    made.looked()
    for pk in ClusterDriftScan.objects.order_by("pk").values_list("pk", flat=True):
        ClusterDriftScan.objects.filter(pk=pk).update(due_at=get_database_time(), compared_at=None)
        with CaptureQueriesContext(connection) as queries:
            run_scan(DriftScan, pk, made.door)
        spent.append(len(queries))
    assert spent[0] == spent[1]
