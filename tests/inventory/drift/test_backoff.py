"""Looks that fail together rest together, say why and what to do, and leave sync alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from aws.errors import AwsError, Denied, Throttled, Unauthenticated
from deployments.journal import rate_limits
from inventory.drift import clusters
from inventory.drift.cursor import create_cursor
from inventory.drift.drift_scan import DriftScan
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison
from inventory.models.instances import SyncedCluster, SyncPause
from inventory.sync.pauses import LONGEST_PAUSE, claim_trial
from inventory.sync.scans.runner import run_scan
from rbac.models import Scope, User
from tests.inventory.drift.large_account import Account
from tests.inventory.drift.test_large_accounts import World, create_world
from web.clock import get_database_time

pytestmark = pytest.mark.django_db


@dataclass
class DenyingAccount:
    """An account that refuses every call of a look."""

    error: AwsError
    operations: list[str] = field(default_factory=list)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.operations.append(operation)
        raise self.error


@pytest.fixture
def synced_world(project: Scope, settings: Settings) -> World:
    """Three clusters, of which two share an account and region; all are synced."""
    settings.AWS_QUOTA_SHARE = 1000.0
    rate_limits.reset_buckets()
    account_world = create_world(project, (2, 3))
    account_world.sync_all()
    clusters.create_cluster_scans(get_database_time())
    return account_world


def create_cluster(account_world: World) -> None:
    """Create another synced cluster in the first account and region."""
    first = SyncedCluster.objects.order_by("pk")[0]
    services = list(first.services.all())
    first.pk, first._state.adding, first.cluster = None, True, "beside"
    first.save()
    for service in services:
        service.pk, service._state.adding, service.cluster = None, True, first
        service.save()
    clusters.create_cluster_scans(get_database_time())


def tick(account: Any) -> None:
    for pk in clusters.list_due_clusters(get_database_time(), 100):
        run_scan(DriftScan, pk, lambda *_: account)


def pass_time() -> None:
    rate_limits.reset_buckets()
    past = get_database_time() - timedelta(seconds=1)
    SyncPause.objects.update(paused_until=past, trial_expires_at=None)
    ClusterDriftScan.objects.update(due_at=past)


THROTTLED = Throttled("ThrottlingException", "Rate exceeded", "application-autoscaling", "Describe")
UNKNOWN_KEY = Unauthenticated("UnrecognizedClientException", "bad token", "ecs", "DescribeScalableTargets")


@pytest.mark.parametrize("error", [THROTTLED, UNKNOWN_KEY])
def test_one_asks_for_all_that_share_an_account_and_region_later_each_time(
    synced_world: World, error: AwsError
) -> None:
    create_cluster(synced_world)
    assert ClusterDriftScan.objects.count() == 3
    account, pauses = DenyingAccount(error), []
    tick(account)
    assert len(account.operations) == 2, "one for each account and region"
    for attempt in range(3):
        pass_time()
        tick(account)
        assert len(account.operations) == 4 + 2 * attempt
        pauses.append(max(SyncPause.objects.values_list("paused_until", flat=True)) - get_database_time())
    assert pauses[0] < pauses[1] < pauses[2] <= LONGEST_PAUSE
    now = get_database_time()
    assert [claim_trial(cluster, now) for cluster in SyncedCluster.objects.all()] == [None] * 3, (
        "sync does not rest"
    )


def test_the_first_look_that_goes_well_lets_all_go_on(synced_world: World) -> None:
    create_cluster(synced_world)
    tick(DenyingAccount(THROTTLED))
    pass_time()
    for _ in range(2):
        tick(next(iter(synced_world.accounts.values())))
    assert not SyncPause.objects.exists()
    assert not ClusterDriftScan.objects.exclude(failure="").exists()
    assert not ClusterDriftScan.objects.filter(compared_at=None).exists()


def test_who_asks_for_a_look_ends_the_rest_of_all_that_only_waited(synced_world: World) -> None:
    create_cluster(synced_world)
    tick(DenyingAccount(THROTTLED))
    (waiting_scan,) = ClusterDriftScan.objects.filter(failures=0)
    failed_scan = ClusterDriftScan.objects.get(failures=1, cluster__connector=waiting_scan.cluster.connector)
    assert waiting_scan.due_at > get_database_time(), "it rests with the one that failed"
    rate_limits.reset_buckets()
    clusters.advance_due_date(failed_scan.cluster, get_database_time())
    for _ in range(2):
        tick(next(iter(synced_world.accounts.values())))
    waiting_scan.refresh_from_db()
    assert waiting_scan.compared_at is not None


def test_who_asks_for_a_look_wakes_one_that_rests_half_way(synced_world: World) -> None:
    scan = ClusterDriftScan.objects.select_related("cluster__connector").order_by("pk")[0]
    cursor = create_cursor(scan.cluster, get_database_time()).to_row()
    later_due_at = get_database_time() + LONGEST_PAUSE
    ClusterDriftScan.objects.filter(pk=scan.pk).update(cursor=cursor, due_at=later_due_at)
    clusters.advance_due_date(scan.cluster, get_database_time())
    assert scan.pk in clusters.list_due_clusters(get_database_time(), 10)


def test_a_look_that_fails_says_how_old_it_is_why_and_what_to_do(
    synced_world: World, admin: User, client: Client
) -> None:
    synced_world.scan_all()
    ClusterDriftScan.objects.update(due_at=get_database_time(), compared_at=None)
    tick(DenyingAccount(UNKNOWN_KEY))
    comparison = DriftComparison.objects.order_by("pk")[0]
    client.force_login(admin)
    page = client.get(f"/drift/{comparison.pk}/").content.decode()
    assert "The last drift check failed" in page
    assert "access key" in page
    assert "Next retry" in page
    scan_state = client.get(f"/api/v1/drift/{comparison.pk}").json()["look"]
    (scan_trouble,) = scan_state["troubles"]
    assert (scan_trouble["of"], scan_trouble["code"]) == ("LOOK", "UnrecognizedClientException")
    assert "access key" in scan_trouble["next_step"]
    assert scan_trouble["again_at"] > scan_trouble["failed_at"]


def test_auto_scaling_that_may_not_be_read_keeps_nothing_else_from_being_compared(
    synced_world: World,
) -> None:
    denied_error = Denied(
        "AccessDeniedException", "not authorized to perform: application-autoscaling:X", "ecs", "X"
    )

    class Keeping(Account):
        def _DescribeScalableTargets(self, params: Mapping[str, Any]) -> dict[str, Any]:
            raise denied_error

    for account in synced_world.accounts.values():
        account.__class__ = Keeping
    synced_world.scan_all()
    assert not ClusterDriftScan.objects.exclude(failure="").exists()
    assert ClusterDriftScan.objects.exclude(scaling_read_error="").count() == 2
    assert set(DriftComparison.objects.values_list("state", flat=True)) == {"DRIFTED", "IN_STEP"}
    assert not DriftComparison.objects.filter(reason="").exists()


@pytest.mark.parametrize("operation", ["DescribeScalableTargets", "DescribeScalingPolicies"])
def test_a_response_about_auto_scaling_without_its_list_is_no_drift(
    synced_world: World, operation: str
) -> None:
    synced_world.scan_all()
    before = sorted(Drift.objects.filter(resolved_at=None).values_list("pk", flat=True))

    class WithoutList(Account):
        def call(self, service: str, called: str, params: Mapping[str, Any]) -> dict[str, Any]:
            return {} if called == operation else super().call(service, called, params)

    for account in synced_world.accounts.values():
        account.__class__ = WithoutList
    ClusterDriftScan.objects.update(due_at=get_database_time(), compared_at=None)
    tick(next(iter(synced_world.accounts.values())))
    assert sorted(Drift.objects.filter(resolved_at=None).values_list("pk", flat=True)) == before
    assert ClusterDriftScan.objects.filter(
        failure__startswith="The response about auto scaling has no"
    ).exists()
