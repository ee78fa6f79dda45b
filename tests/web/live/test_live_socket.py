"""The socket of pages that show what changes by itself: who hears what, and how seldom anything is read."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deployments.live.executions import EXECUTION_TOPIC, list_execution_snapshots
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.access_changes import publish_access_change
from rbac.models import ResourceGroup, Role, RoleAssignment, Scope, User
from steps.states import Status
from tests.fixtures.people import make_person
from tests.fixtures.sockets import PATIENCE, TopicSocket, open_socket, receive_topics
from web.live import publish_change_on_commit
from web.live.broadcaster import watch_sources
from web.live.sources import _sources_by_topic as BY_TOPIC
from web.live.sources import get_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("live_broker")]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.live.broadcaster.BROADCAST_INTERVAL_SECONDS", 0.05)


@pytest.fixture
def pipeline(project: Scope) -> Pipeline:
    return Pipeline.objects.create(scope=project, identifier="one", name="One", yaml="")


def create_execution(pipeline: Pipeline, status: str = Status.RUNNING) -> Execution:
    """A run, told as the engine does it."""
    execution = Execution.objects.create(
        pipeline=pipeline,
        scope=pipeline.scope,
        number=Execution.objects.count() + 1,
        yaml="",
        status=status,
        due_at=timezone.now(),
    )
    publish_change_on_commit("executions", execution.pk)
    return execution


def update_status(execution: Execution, status: str) -> None:
    Execution.objects.filter(pk=execution.pk).update(status=status)
    publish_change_on_commit("executions", execution.pk)


make, move = sync_to_async(create_execution), sync_to_async(update_status)


async def test_a_run_is_heard_of_in_its_project_above_it_and_at_its_pipeline(
    pipeline: Pipeline, project: Scope, admin: User
) -> None:
    above = await sync_to_async(project.ancestors_and_self)()
    sockets = {
        f"executions:{scope.pk}": await open_socket(admin, f"executions:{scope.pk}") for scope in above
    }
    sockets[f"pipeline:{pipeline.pk}"] = await open_socket(admin, f"pipeline:{pipeline.pk}")
    execution = await make(pipeline)
    for topic, socket in sockets.items():
        assert await receive_topics(socket) == [topic]
    await move(execution, Status.SUCCESS)
    for topic, socket in sockets.items():
        assert await receive_topics(socket) == [topic]
    await asyncio.gather(*(connection.leave() for connection in sockets.values()))


async def test_one_page_hears_of_several_topics_at_once(pipeline: Pipeline, admin: User) -> None:
    topics = [f"executions:{pipeline.scope_id}", f"pipeline:{pipeline.pk}"]
    socket = await open_socket(admin, *topics)
    await make(pipeline)
    assert await receive_topics(socket) == topics
    await socket.leave()


async def test_who_sees_one_pipeline_hears_of_its_runs_alone(
    pipeline: Pipeline, project: Scope, viewer: User
) -> None:
    other = await Pipeline.objects.acreate(scope=project, identifier="two", name="Two", yaml="")
    person = await sync_to_async(create_pipeline_viewer)(other)
    topic = f"executions:{project.pk}"
    own_socket, other_socket = await open_socket(viewer, topic), await open_socket(person, topic)
    await make(pipeline)
    await receive_topics(own_socket)
    # The two share a hub: what was told to the one would have been told to the other by now.
    assert await other_socket.receive_nothing(0.3)
    await make(other)
    assert await receive_topics(other_socket) == [topic]
    assert (await TopicSocket(person, f"pipeline:{pipeline.pk}").open())["code"] == 4403
    await asyncio.gather(own_socket.leave(), other_socket.leave())


def create_pipeline_viewer(pipeline: Pipeline) -> User:
    person = make_person("narrow")
    group = ResourceGroup.objects.create(scope=pipeline.scope, identifier="narrow", name="Narrow")
    group.entries.create(resource="pipeline", identifier=pipeline.identifier)
    role = Role.objects.get(scope=None, identifier="viewer")
    RoleAssignment.objects.create(user=person, role=role, scope=pipeline.scope, resource_group=group)
    return person


async def test_a_neighbour_hears_nothing_and_asks_in_vain(
    pipeline: Pipeline, project: Scope, other_project: Scope, viewer: User, stranger: User
) -> None:
    other_socket = await open_socket(stranger, f"executions:{other_project.pk}", f"executions:{project.pk}")
    own_socket = await open_socket(viewer, f"executions:{project.pk}")
    await make(pipeline)
    await receive_topics(own_socket)
    assert await other_socket.receive_nothing(0.3)
    assert (await TopicSocket(stranger, f"executions:{project.pk}").open())["code"] == 4403
    await asyncio.gather(own_socket.leave(), other_socket.leave())


@pytest.mark.parametrize(
    "topics",
    [(), ("",), ("executions",), ("executions:",), ("executions:0",), ("executions:x",), ("nothing:1",)]
    + [(f"executions:{10**30}",), ("pipeline:-1",), ("executions:1\0",), ("executions:" + "1" * 9999,)],
)
async def test_what_is_no_topic_is_refused(topics: tuple[str, ...], admin: User) -> None:
    assert (await TopicSocket(admin, *topics).open())["code"] == 4403


async def test_who_loses_a_role_hears_no_more(pipeline: Pipeline, project: Scope, viewer: User) -> None:
    topic = f"executions:{project.pk}"
    socket = await open_socket(viewer, topic)
    await sync_to_async(remove_roles)(viewer)
    await make(pipeline)
    assert await socket.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4403}


def remove_roles(person: User) -> None:
    RoleAssignment.objects.filter(user=person).delete()
    publish_access_change(person.pk)


async def test_who_keeps_one_topic_hears_of_that_alone(
    pipeline: Pipeline, project: Scope, other_project: Scope, viewer: User
) -> None:
    role = await Role.objects.aget(scope=None, identifier="viewer")
    await RoleAssignment.objects.acreate(user=viewer, role=role, scope=other_project)
    elsewhere = await Pipeline.objects.acreate(scope=other_project, identifier="e", name="E", yaml="")
    kept_topic, lost = f"executions:{other_project.pk}", f"executions:{project.pk}"
    socket = await open_socket(viewer, kept_topic, lost)
    await sync_to_async(remove_grants)(viewer, project)
    await make(pipeline)
    assert await socket.receive_nothing(0.5)
    await make(elsewhere)
    assert await receive_topics(socket) == [kept_topic]
    await socket.leave()


def remove_grants(person: User, scope: Scope) -> None:
    RoleAssignment.objects.filter(user=person, scope=scope).delete()
    publish_access_change(person.pk)


async def test_commits_that_show_nothing_new_wake_nobody(pipeline: Pipeline, viewer: User) -> None:
    execution = await make(pipeline)
    socket = await open_socket(viewer, f"pipeline:{pipeline.pk}")
    reads: list[Any] = []
    async with counted(reads):
        for _ in range(200):
            await sync_to_async(publish_change_on_commit)("executions", execution.pk)
        await move(execution, Status.SUCCESS)
        assert await receive_topics(socket) == [f"pipeline:{pipeline.pk}"]
        assert await socket.receive_nothing(0.3)
    # Told once a fifth of a second at most, however many commits there are.
    assert len(reads) < 20
    await socket.leave()


class counted:
    """Notes what the hub of executions reads, while the block lasts."""

    def __init__(self, reads: list[Any]) -> None:
        self.reads = reads

    async def __aenter__(self) -> None:
        self.hub = watch_sources([EXECUTION_TOPIC])
        self.shared = await self.hub.__aenter__()
        self.read = self.shared._read

        async def note_read(subject: Any, keys: Any) -> Any:
            self.reads.append(keys)
            return await self.read(subject, keys)

        self.shared._read = note_read  # type: ignore[method-assign]

    async def __aexit__(self, *_: object) -> None:
        self.shared._read = self.read  # type: ignore[method-assign]
        await self.hub.__aexit__(None, None, None)


async def test_a_change_is_read_once_for_any_number_of_pages(pipeline: Pipeline, viewer: User) -> None:
    sockets = [await open_socket(viewer, f"pipeline:{pipeline.pk}") for _ in range(5)]
    reads: list[Any] = []
    async with counted(reads):
        execution = await make(pipeline)
        for socket in sockets:
            await receive_topics(socket)
    assert reads == [{str(execution.pk)}]
    await asyncio.gather(*(socket.leave() for socket in sockets))


async def test_what_nobody_told_is_found_all_the_same(
    pipeline: Pipeline, viewer: User, looks_often: Callable[[str], None]
) -> None:
    looks_often("executions")
    topic = f"pipeline:{pipeline.pk}"
    execution = await make(pipeline)
    socket = await open_socket(viewer, topic)
    await Execution.objects.filter(pk=execution.pk).aupdate(status=Status.PAUSED)
    assert await receive_topics(socket) == [topic]
    await Execution.objects.filter(pk=execution.pk).aupdate(status=Status.SUCCESS, ended_at=timezone.now())
    assert await receive_topics(socket) == [topic]
    await Execution.objects.acreate(
        pipeline=pipeline, scope_id=pipeline.scope_id, number=9, yaml="", due_at=timezone.now()
    )
    assert await receive_topics(socket) == [topic]
    assert await socket.receive_nothing(0.5)
    await socket.leave()


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has all of a subject looked at again ten times a second."""

    def often(name: str) -> None:
        source = replace(get_source(name), poll_seconds=0.1)
        for topic in source.topics:
            monkeypatch.setitem(BY_TOPIC, topic, source)

    return often


async def test_a_page_is_told_what_changed_since_it_was_drawn_and_else_nothing(
    pipeline: Pipeline, viewer: User
) -> None:
    topic = f"pipeline:{pipeline.pk}"
    first = TopicSocket(viewer, topic, age=0)
    # Nobody listened before: something may have been missed.
    assert json.loads((await first.open())["text"]) == {"type": "watching", "stale": True}
    await asyncio.sleep(1.1)
    second = TopicSocket(viewer, topic, age=0)
    assert json.loads((await second.open())["text"]) == {"type": "watching", "stale": False}
    await make(pipeline)
    await receive_topics(first)
    await receive_topics(second)
    third = TopicSocket(viewer, topic, age=0)
    assert json.loads((await third.open())["text"]) == {"type": "watching", "stale": False}
    assert await receive_topics(third) == [topic]
    await asyncio.gather(first.leave(), second.leave(), third.leave())


def test_many_executions_are_looked_at_in_one_query(pipeline: Pipeline) -> None:
    keys = [str(create_execution(pipeline).pk) for _ in range(5)]
    for requested_keys in (keys, keys[:1], None):
        with CaptureQueriesContext(connection) as queries:
            snapshots = list_execution_snapshots(requested_keys)
        assert set(snapshots) == set(requested_keys or keys)
        assert len(queries) <= 2
