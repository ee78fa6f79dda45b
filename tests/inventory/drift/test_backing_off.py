"""Looks that fail together rest together, say why and what to do, and leave sync alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from aws.errors import AwsError, Denied, Throttled, Unauthenticated
from deployments.engine import quota
from inventory.drift import clusters
from inventory.drift.looking import go_on
from inventory.drift.wanted import wanted_reading
from inventory.models.drift import ComparedCluster, Comparison
from inventory.models.instances import SyncedCluster, SyncPause
from inventory.sync.pausing import LONGEST_PAUSE, held_back
from rbac.models import Scope, User
from tests.inventory.drift.crowd import Account
from tests.inventory.drift.test_many import World, world
from web.clock import database_now

pytestmark = pytest.mark.django_db


@dataclass
class Refusing:
    """An account that refuses every call of a look."""

    error: AwsError
    asked: list[str] = field(default_factory=list)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(operation)
        raise self.error


@pytest.fixture
def made(project: Scope, settings: Settings) -> World:
    """Three clusters, of which two share an account and region; all are synced."""
    settings.AWS_QUOTA_SHARE = 1000.0
    quota.forget()
    found = world(project, (2, 3))
    found.synced()
    clusters.enter_new(database_now())
    return found


def beside(made: World) -> None:
    """Another cluster of the first account and region, which sync knows too."""
    first = SyncedCluster.objects.order_by("pk")[0]
    services = list(first.services.all())
    first.pk, first._state.adding, first.cluster = None, True, "beside"
    first.save()
    for one in services:
        one.pk, one._state.adding, one.cluster = None, True, first
        one.save()
    clusters.enter_new(database_now())


def tick(account: Any) -> None:
    for pk in clusters.due(database_now(), 100):
        go_on(pk, lambda *_: account)


def pass_time() -> None:
    quota.forget()
    ago = database_now() - timedelta(seconds=1)
    SyncPause.objects.update(until=ago, tried_until=None)
    ComparedCluster.objects.update(due_at=ago)


THROTTLED = Throttled("ThrottlingException", "Rate exceeded", "application-autoscaling", "Describe")
UNKNOWN_KEY = Unauthenticated("UnrecognizedClientException", "bad token", "ecs", "DescribeScalableTargets")


@pytest.mark.parametrize("error", [THROTTLED, UNKNOWN_KEY])
def test_one_asks_for_all_that_share_an_account_and_region_later_each_time(
    made: World, error: AwsError
) -> None:
    beside(made)
    assert ComparedCluster.objects.count() == 3
    account, pauses = Refusing(error), []
    tick(account)
    assert len(account.asked) == 2, "one for each account and region"
    for turn in range(3):
        pass_time()
        tick(account)
        assert len(account.asked) == 4 + 2 * turn
        pauses.append(max(SyncPause.objects.values_list("until", flat=True)) - database_now())
    assert pauses[0] < pauses[1] < pauses[2] <= LONGEST_PAUSE
    now = database_now()
    assert [held_back(one, now) for one in SyncedCluster.objects.all()] == [None] * 3, "sync does not rest"


def test_the_first_look_that_goes_well_lets_all_go_on(made: World) -> None:
    beside(made)
    tick(Refusing(THROTTLED))
    pass_time()
    for _ in range(2):
        tick(next(iter(made.accounts.values())))
    assert not SyncPause.objects.exists()
    assert not ComparedCluster.objects.exclude(failure="").exists()
    assert not ComparedCluster.objects.filter(compared_at=None).exists()


def test_who_asks_for_a_look_ends_the_rest_of_all_that_only_waited(made: World) -> None:
    beside(made)
    tick(Refusing(THROTTLED))
    failed = ComparedCluster.objects.filter(failures=1).order_by("pk")[0]
    (resting,) = ComparedCluster.objects.filter(failures=0)
    assert resting.due_at > database_now(), "it rests with the one that failed"
    quota.forget()
    clusters.ask_for(failed.cluster, database_now())
    for _ in range(2):
        tick(next(iter(made.accounts.values())))
    resting.refresh_from_db()
    assert resting.compared_at is not None


def test_who_asks_for_a_look_wakes_one_that_rests_half_way(made: World) -> None:
    one = ComparedCluster.objects.select_related("cluster__connector").order_by("pk")[0]
    begun = wanted_reading(one.cluster, database_now()).to_row()
    later = database_now() + LONGEST_PAUSE
    ComparedCluster.objects.filter(pk=one.pk).update(reading=begun, due_at=later)
    clusters.ask_for(one.cluster, database_now())
    assert one.pk in clusters.due(database_now(), 10)


def test_a_look_that_fails_says_how_old_it_is_why_and_what_to_do(
    made: World, admin: User, client: Client
) -> None:
    made.looked()
    ComparedCluster.objects.update(due_at=database_now(), compared_at=None)
    tick(Refusing(UNKNOWN_KEY))
    comparison = Comparison.objects.order_by("pk")[0]
    client.force_login(admin)
    page = client.get(f"/drift/{comparison.pk}/").content.decode()
    assert "The last look for drift failed" in page
    assert "access key" in page
    assert "Tried again" in page
    told = client.get(f"/api/v1/drift/{comparison.pk}").json()["look"]
    (trouble,) = told["troubles"]
    assert (trouble["of"], trouble["code"]) == ("LOOK", "UnrecognizedClientException")
    assert "access key" in trouble["next_step"]
    assert trouble["again_at"] > trouble["failed_at"]


def test_auto_scaling_that_may_not_be_read_keeps_nothing_else_from_being_compared(made: World) -> None:
    denied = Denied(
        "AccessDeniedException", "not authorized to perform: application-autoscaling:X", "ecs", "X"
    )

    class Keeping(Account):
        def _DescribeScalableTargets(self, params: Mapping[str, Any]) -> dict[str, Any]:
            raise denied

    for account in made.accounts.values():
        account.__class__ = Keeping
    made.looked()
    assert not ComparedCluster.objects.exclude(failure="").exists()
    assert ComparedCluster.objects.exclude(scaling_unread="").count() == 2
    assert set(Comparison.objects.values_list("state", flat=True)) == {"DRIFTED", "IN_STEP"}
    assert not Comparison.objects.filter(reason="").exists()
