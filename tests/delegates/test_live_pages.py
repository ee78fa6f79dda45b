"""Topics of delegates: which pages are told that a delegate changed, and which are left alone."""

from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from delegates import live
from delegates.models import Delegate, DelegateTask
from delegates.queries.delegates import prefetch_instances
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from tests.fixtures.sockets import open_socket, receive_topics
from web.live.sources import _sources_by_topic as BY_TOPIC
from web.live.sources import get_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("live_broker")]


@pytest.fixture(autouse=True)
def _shorten_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.live.broadcaster.BROADCAST_INTERVAL_SECONDS", 0.05)


@pytest.fixture
def delegate(project: Scope) -> Delegate:
    eu_delegate = make_delegate(project, "eu")
    make_instance(eu_delegate)
    return eu_delegate


@sync_to_async
def age_heartbeats(delegate: Delegate) -> None:
    """Set the last heartbeats three minutes back, and publish the change."""
    delegate.instances.update(last_heartbeat_at=timezone.now() - timedelta(minutes=3))
    live.publish_delegates_changed(delegate.pk)


async def test_a_delegate_that_falls_silent_changes_its_page_the_list_and_what_counts_delegates(
    delegate: Delegate, project: Scope, viewer: User
) -> None:
    topics = [f"delegate:{delegate.pk}", f"delegate-rows:{project.pk}", f"delegates:{project.pk}"]
    sockets = [await open_socket(viewer, topic) for topic in topics]
    await age_heartbeats(delegate)
    assert [await receive_topics(socket) for socket in sockets] == [[topic] for topic in topics]
    for socket in sockets:
        await socket.leave()


async def test_a_task_that_starts_changes_the_list_and_not_what_counts_delegates(
    delegate: Delegate, project: Scope, viewer: User
) -> None:
    rows, counts = f"delegate-rows:{project.pk}", f"delegates:{project.pk}"
    list_socket, count_socket = await open_socket(viewer, rows), await open_socket(viewer, counts)
    task = await sync_to_async(make_task)(project)
    instance = await delegate.instances.aget()
    await DelegateTask.objects.filter(pk=task.pk).aupdate(
        status=DelegateTask.Status.STARTED, instance=instance, started_at=timezone.now()
    )
    await sync_to_async(live.publish_delegates_changed)(delegate.pk)
    assert await receive_topics(list_socket) == [rows]
    # Both share a broadcaster: what it told the one, it would have told the other by now.
    assert await count_socket.receive_nothing(0.3)
    await list_socket.leave()
    await count_socket.leave()


async def test_nobody_hears_of_delegates_that_they_may_not_see(
    delegate: Delegate, project: Scope, other_project: Scope, viewer: User, stranger: User
) -> None:
    own_socket, foreign_socket = (
        await open_socket(viewer, f"delegate-rows:{project.pk}"),
        await open_socket(stranger, f"delegate-rows:{other_project.pk}", f"delegate-rows-at:{project.pk}"),
    )
    await age_heartbeats(delegate)
    assert await receive_topics(own_socket)
    assert await foreign_socket.receive_nothing(0.3)
    await own_socket.leave()
    await foreign_socket.leave()


async def test_a_new_and_a_deleted_delegate_are_noticed_without_a_message(
    delegate: Delegate, project: Scope, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = replace(get_source("delegates"), poll_seconds=0.1)
    for topic in source.topics:
        monkeypatch.setitem(BY_TOPIC, topic, source)
    rows = f"delegate-rows:{project.pk}"
    socket = await open_socket(viewer, rows)
    await Delegate.objects.acreate(scope=project, name="new")
    assert await receive_topics(socket) == [rows]
    await sync_to_async(delegate.delete)()
    assert await receive_topics(socket) == [rows]
    await socket.leave()


def test_a_heartbeat_alone_changes_the_page_of_its_delegate_by_age_only(delegate: Delegate) -> None:
    before = live.read_delegate_snapshots(None)[str(delegate.pk)]
    delegate.instances.update(last_heartbeat_at=timezone.now() + timedelta(seconds=1))
    after = live.read_delegate_snapshots(None)[str(delegate.pk)]
    assert [row.state for row in before] == [row.state for row in after]
    assert [row.age == next_row.age for row, next_row in zip(before, after, strict=True)] == [
        True,
        True,
        False,
    ]
    assert prefetch_instances(Delegate.objects.all()).count() == len(live.read_delegate_snapshots(None))
