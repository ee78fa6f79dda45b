"""Failures that clusters share: one asks for all, later each time, and says what to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from aws.errors import AwsError, Denied, NotFound, Throttled, Unauthenticated
from connectors.models import Connector
from deployments.journal import rate_limits
from inventory.models.instances import SyncedCluster, SyncPause
from inventory.queries.instances import serialize_sync
from inventory.sync.clusters import list_due_clusters
from inventory.sync.pauses import LONGEST_PAUSE, allow_trial
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from rbac.models import Scope
from tests.inventory.sync.large_cluster import LargeCluster
from web.clock import get_database_time

pytestmark = pytest.mark.django_db


@dataclass
class DenyingAccount:
    """An account that refuses every call."""

    error: AwsError
    clusters: list[str] = field(default_factory=list)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.clusters.append(params["cluster"])
        raise self.error


@pytest.fixture
def clusters(project: Scope, settings: Settings) -> list[SyncedCluster]:
    """Five clusters of one connector in one region, and one in another region."""
    settings.AWS_QUOTA_SHARE = 1000.0
    rate_limits.reset_buckets()
    spec = {"credentials": "InheritFromDelegate"}
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS", spec=spec)
    cluster_keys = [(f"c{number}", "us-east-1") for number in range(5)] + [("far", "eu-west-1")]
    now = get_database_time()
    return [
        SyncedCluster.objects.create(
            connector=connector,
            region=region,
            cluster=name,
            account="123456789012",
            last_used_at=now,
            due_at=now,
        )
        for name, region in cluster_keys
    ]


def tick(account: DenyingAccount | LargeCluster) -> None:
    for pk in list_due_clusters(get_database_time(), 100):
        run_scan(SyncScan, pk, lambda *_: account)


def pass_time() -> None:
    """End the pause, including that of AWS's quota."""
    rate_limits.reset_buckets()
    past = get_database_time() - timedelta(seconds=1)
    SyncPause.objects.update(paused_until=past, trial_expires_at=None)
    SyncedCluster.objects.update(due_at=past)


THROTTLED = Throttled("ThrottlingException", "Rate exceeded", "ecs", "ListServices")
UNKNOWN_KEY = Unauthenticated("UnrecognizedClientException", "bad token", "ecs", "ListServices")


@pytest.mark.parametrize("error", [THROTTLED, UNKNOWN_KEY])
def test_one_asks_for_all_that_share_an_account_and_region(
    clusters: list[SyncedCluster], error: AwsError
) -> None:
    account = DenyingAccount(error)
    tick(account)
    # Which of the five comes first is up to the database: all are due since the same moment.
    assert len(account.clusters) == 2, "the others rest without having asked"
    assert "far" in account.clusters
    tick(account)
    assert len(account.clusters) == 2
    pauses = []
    for attempt in range(3):
        pass_time()
        tick(account)
        assert len(account.clusters) == 4 + 2 * attempt
        assert not list_due_clusters(get_database_time(), 100)
        pauses.append(max(SyncPause.objects.values_list("paused_until", flat=True)) - get_database_time())
    assert pauses[0] < pauses[1] < pauses[2] <= LONGEST_PAUSE


def test_the_first_call_that_goes_well_lets_all_go_on(clusters: list[SyncedCluster]) -> None:
    tick(DenyingAccount(THROTTLED))
    pass_time()
    large_cluster = LargeCluster(1, 1)
    tick(large_cluster)
    tick(large_cluster)
    assert not SyncPause.objects.exists()
    assert not SyncedCluster.objects.filter(synced_at=None).exists()
    assert not SyncedCluster.objects.exclude(failure="").exists()


def test_what_only_one_cluster_fails_by_holds_no_other_back(clusters: list[SyncedCluster]) -> None:
    for error in (
        NotFound("ClusterNotFoundException", "Cluster not found.", "ecs", "ListServices"),
        Denied("AccessDeniedException", "not authorized to perform: ecs:ListServices", "ecs", "ListServices"),
    ):
        account = DenyingAccount(error)
        SyncedCluster.objects.update(due_at=get_database_time())
        tick(account)
        assert len(account.clusters) == 6
    assert not SyncPause.objects.exists()
    assert SyncedCluster.objects.exclude(failure_step="").count() == 6


def test_a_cluster_that_rests_says_why_until_when_and_what_to_do(clusters: list[SyncedCluster]) -> None:
    tick(DenyingAccount(UNKNOWN_KEY))
    now = get_database_time()
    for cluster in clusters[:2]:
        cluster.refresh_from_db()
        sync_state = serialize_sync(cluster, now)
        assert "not accepted" in sync_state["failure"]
        assert "access key" in sync_state["next_step"]
        assert sync_state["rests_until"] > now


def test_who_asks_for_a_look_at_once_need_not_wait(clusters: list[SyncedCluster]) -> None:
    tick(DenyingAccount(UNKNOWN_KEY))
    cluster = SyncedCluster.objects.get(cluster="c3")
    now = get_database_time()
    allow_trial(cluster, now)
    SyncedCluster.objects.filter(pk=cluster.pk).update(due_at=now)
    tick(LargeCluster(1, 1))
    cluster.refresh_from_db()
    assert cluster.synced_at is not None


def test_a_trial_that_never_came_back_is_followed_by_another(clusters: list[SyncedCluster]) -> None:
    account = DenyingAccount(THROTTLED)
    tick(account)
    pass_time()
    SyncPause.objects.update(trial_expires_at=get_database_time() + timedelta(seconds=30))
    tick(account)
    assert len(account.clusters) == 2, "somebody tries already"
    pass_time()
    tick(account)
    assert len(account.clusters) == 4


@pytest.mark.parametrize("spec", [{"endpoint_url": "https://proxy.example"}, {"connect_through": "Delegate"}])
def test_a_claim_of_the_account_neither_pauses_its_clusters_nor_wakes_them(
    clusters: list[SyncedCluster], project: Scope, spec: dict[str, str]
) -> None:
    """An endpoint of its own, or a delegate, can answer with the ARNs of any account."""
    claimant = Connector.objects.create(scope=project, identifier="claimant", name="Claimant", spec=spec)
    SyncedCluster.objects.filter(cluster="c4").update(connector=claimant)
    tick_alone(DenyingAccount(THROTTLED), "c4")
    tick(LargeCluster(1, 1))
    tick(LargeCluster(1, 1))
    others = SyncedCluster.objects.exclude(cluster="c4")
    assert not others.filter(synced_at=None).exists(), "the pause concerns the claimant alone"
    later = get_database_time() + timedelta(minutes=30)
    others.update(due_at=later, synced_at=None)
    pass_time()
    others.update(due_at=later)
    for _ in range(2):
        tick_alone(LargeCluster(1, 1), "c4")
    assert not SyncPause.objects.exists()
    assert set(others.values_list("due_at", flat=True)) == {later}


def tick_alone(account: DenyingAccount | LargeCluster, name: str) -> None:
    run_scan(SyncScan, SyncedCluster.objects.get(cluster=name).pk, lambda *_: account)
