"""The socket of the badge: everybody hears how many approvals wait for them, and when that changes."""

import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from config.urls import websocket_urlpatterns
from deployments.approvals.operations import approve_step
from deployments.approvals.queries import count_waiting_approvals, list_waiting_approvals
from deployments.models import Approval, Interrupt
from rbac.models import Scope, User, UserGroup
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person
from tests.fixtures.sockets import session_of

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sample(project: Scope, admin: User) -> World:
    """An approval that waits for the group of the administrator, of a run that somebody else started."""
    world = make_world(project, admin, admin)
    group = UserGroup.objects.create(scope=Scope.objects.account(), identifier="ops", name="Operations")
    group.users.add(admin)
    world.approval.groups.set([group])
    return world


async def open_socket(person: User) -> ApplicationCommunicator:
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/ws/approvals/",
        "query_string": b"",
        "headers": [],
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    socket.scope["session"] = await session_of(person)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE))["type"] == "websocket.accept"
    return socket


async def receive_count(socket: ApplicationCommunicator) -> int:
    return int(json.loads((await socket.receive_output(PATIENCE))["text"])["waiting"])


async def close_socket(socket: ApplicationCommunicator) -> None:
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(PATIENCE)


async def test_who_is_asked_hears_it_at_once_and_when_they_have_decided(sample: World, admin: User) -> None:
    stranger = await database_sync_to_async(make_person)("stranger")
    admin_page, stranger_page = await open_socket(admin), await open_socket(stranger)
    assert (await receive_count(admin_page), await receive_count(stranger_page)) == (1, 0)
    await database_sync_to_async(approve_step)(actor=admin, approval=sample.approval, diff="d" * 64)
    assert await receive_count(admin_page) == 0
    # Both are counted together: what was told to the one would have been told to the other by now.
    assert await stranger_page.receive_nothing(0.1)
    await close_socket(admin_page)
    await close_socket(stranger_page)


async def test_the_numbers_are_repeated_so_that_a_lost_connection_is_noticed(
    sample: World, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.consumers.BADGE_REFRESH_SECONDS", 0.05)
    monkeypatch.setattr("deployments.consumers.KEEPALIVE_SECONDS", 0.2)
    page = await open_socket(admin)
    assert [await receive_count(page) for _ in range(3)] == [1, 1, 1]
    await close_socket(page)


def test_all_are_counted_together_as_each_is_counted_alone(
    sample: World, project: Scope, admin: User
) -> None:
    group = sample.approval.groups.get()
    users = [admin, sample.member, make_person("blind")]
    users += [make_person(f"viewer{number}", "viewer", project) for number in range(4)]
    group.users.add(*users)
    retried = {"execution": sample.approval.execution, "kind": Interrupt.Kind.RETRY}
    Interrupt.objects.create(by=users[-1], applied_at=timezone.now(), **retried)
    for excludes_executor in (False, True):
        Approval.objects.update(excludes_executor=excludes_executor)
        expected_counts = {person.username: list_waiting_approvals(person).count() for person in users}
        with CaptureQueriesContext(
            connection,
        ) as many_users_queries:
            counts = count_waiting_approvals(users)
        assert {person.username: counts[person.pk] for person in users} == expected_counts
        with CaptureQueriesContext(connection) as two_users_queries:
            count_waiting_approvals(users[-2:])
        assert len(many_users_queries) == len(two_users_queries)
    assert expected_counts["viewer0"] == 1
    assert expected_counts["blind"] == expected_counts["viewer3"] == 0
