"""Every subject that pages hear of: read with as few queries for many things as for one, and told apart."""

import time
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from connectors.models import EventQueueSetup
from delegates.models import DelegateLogChunk, LookupRequest
from deployments.models import PreviewRequest
from gitsync.models import GitSync
from inventory.models.adoption import Adoption
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync.live import read_cluster_snapshots
from ops.models import AcceptanceRun
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from web.live import TopicSnapshot
from web.live.sources import TopicSource, list_sources

pytestmark = pytest.mark.django_db
NOTHING = ["", "x", "0", "-1", str(10**30), "\0", "00000000-0000-0000-0000-000000000000"]


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open dashboards were recorded just now: that takes queries of its own each minute."""
    monkeypatch.setattr("inventory.dashboards.live._recorded_at", time.monotonic())


def fill(world: World, times: int) -> None:
    """More of everything that is under way."""
    now = timezone.now()
    for number in range(times):
        make_task(world.scope)
        instance = make_instance(make_delegate(world.scope, f"one-{LookupRequest.objects.count()}-{number}"))
        DelegateLogChunk.objects.create(instance=instance, sequence=1, count=1, text="a")
        LookupRequest.objects.create(
            connector=world.connector,
            kind="TEST",
            region="us-east-1",
            requested_by=world.member,
            requested_at=now,
        )
        PreviewRequest.objects.create(
            pipeline=world.pipeline, version=1, requested_by=world.member, requested_at=now
        )
        GitSync.objects.create(
            scope=world.scope, identifier=f"sync_{uuid4().hex}", name="Sync", branch="main", due_at=now
        )
        key = uuid4().hex[:8]
        EventQueueSetup.objects.create(
            connector=world.connector, region=key, stack_name="a", started_at=now, due_at=now
        )
        AcceptanceRun.objects.create(
            key=key,
            scope=world.scope,
            connector=world.connector,
            cluster=f"demo-{key}",
            region="us-east-1",
            target={},
            permissions={},
            version="1",
            started_at=now,
        )
    Adoption.objects.update(state=Adoption.State.READING)


# The keys of open pages, of the sources that read no others.
WATCHED: dict[str, Callable[[World], list[str]]] = {
    "badges": lambda world: [str(world.member.pk)],
    "service-dashboards": lambda world: [str(world.service.pk)],
    "timelines": lambda world: [str(world.execution.pk)],
}


@pytest.mark.parametrize("subject", list_sources(), ids=lambda source: source.name)
def test_many_things_are_looked_at_in_as_few_queries_as_one(world: World, subject: TopicSource) -> None:
    keys = WATCHED[subject.name](world) if subject.reads_watched_keys else None
    fill(world, 1)
    with CaptureQueriesContext(connection) as for_few:
        few = subject.read_snapshots(keys)
    assert few
    fill(world, 5)
    with CaptureQueriesContext(connection) as for_many:
        snapshots = subject.read_snapshots(keys)
    assert len(for_many) == len(for_few) <= 6
    # By their keys they look the same.
    assert subject.read_snapshots(list(snapshots)) == snapshots
    assert subject.read_snapshots(NOTHING) == {}
    for topic in (topic for group in snapshots.values() for snapshot in group for topic in snapshot.topics):
        assert topic.partition(":")[0] in subject.topics


def get_snapshot(world: World) -> TopicSnapshot:
    """Return the cluster snapshot of the world's infrastructure."""
    snapshots = [snapshot for look in read_cluster_snapshots(None).values() for snapshot in look]
    return next(
        snapshot for snapshot in snapshots if f"infrastructure:{world.infrastructure.pk}" in snapshot.topics
    )


def test_a_task_that_comes_is_told_at_once_and_how_fresh_that_is_each_minute(world: World) -> None:
    before = get_snapshot(world)
    assert f"instances-of:{world.service.pk}" in before.topics
    SyncedCluster.objects.update(synced_at=timezone.now() - timedelta(hours=1))
    synced = get_snapshot(world)
    SyncedCluster.objects.update(synced_at=timezone.now())
    unchanged = get_snapshot(world)
    assert synced.state == unchanged.state
    assert synced.age != unchanged.age
    ServiceInstance.objects.update(health="UNHEALTHY")
    assert get_snapshot(world).state != unchanged.state


def test_how_far_a_look_is_is_told_to_who_asked_for_it_only(world: World) -> None:
    now = timezone.now()
    SyncedCluster.objects.update(synced_at=now)
    calm = get_snapshot(world)
    SyncedCluster.objects.update(cursor={"phase": "running"})
    assert get_snapshot(world).state == calm.state
    SyncedCluster.objects.update(sync_requested_at=now + timedelta(seconds=1))
    reading = get_snapshot(world)
    SyncedCluster.objects.update(cursor={"phase": "stopped"})
    assert len({calm.state, reading.state, get_snapshot(world).state}) == 3
