"""The badge of drift: everybody hears how many of the ECS services that they see were changed outside."""

import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from config.urls import websocket_urlpatterns
from inventory.models.drift import Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.operations import drift
from inventory.queries.drift import count_drifted_services, list_comparisons
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person
from tests.fixtures.sockets import session_of
from web.clock import get_database_time

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60
DRIFTED = DriftComparison.State.DRIFTED
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    story_world = make_world(project, admin, admin)
    DriftComparison.objects.update(state=DRIFTED)
    Drift.objects.update(resolved_at=None, accepted_at=None, accepted_by=None)
    return story_world


async def open_socket(person: User) -> ApplicationCommunicator:
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/ws/approvals/",
        "query_string": b"",
        "headers": [],
        "session": await session_of(person),
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE))["type"] == "websocket.accept"
    return socket


async def receive_count(socket: ApplicationCommunicator) -> int:
    return int(json.loads((await socket.receive_output(PATIENCE))["text"])["drift"])


def accept_all(admin: User) -> None:
    comparison = list_comparisons(admin).get()
    keys = list(Drift.objects.values_list("pk", flat=True))
    drift.accept_drift(actor=admin, comparison=comparison, keys=keys, reason="As we want it")


async def test_who_sees_it_hears_of_it_at_once_and_when_it_is_accepted(world: World, admin: User) -> None:
    stranger = await database_sync_to_async(make_person)("stranger")
    admin_page, stranger_page = await open_socket(admin), await open_socket(stranger)
    assert (await receive_count(admin_page), await receive_count(stranger_page)) == (1, 0)
    await database_sync_to_async(accept_all)(admin)
    assert await receive_count(admin_page) == 0
    # Both are counted together: what was told to the one would have been told to the other by now.
    assert await stranger_page.receive_nothing(0.1)
    for socket in (admin_page, stranger_page):
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(PATIENCE)


def test_all_are_counted_together_as_each_is_counted_alone(world: World, project: Scope, admin: User) -> None:
    users = [admin, make_person("blind")]
    users += [make_person(f"viewer{number}", "viewer", project) for number in range(4)]
    record = EcsServiceRecord.objects.filter(comparison__isnull=False)[0]
    for number in range(3):
        record.pk, record._state.adding, record.name = None, True, f"more{number}"
        record.save()
        DriftComparison.objects.create(
            ecs_service=record, state=DRIFTED if number else DriftComparison.State.ACCEPTED
        )
    counts = count_drifted_services(users)
    expected_counts = {person.username: list_comparisons(person, DRIFTED).count() for person in users}
    assert {person.username: counts[person.pk] for person in users} == expected_counts
    assert (expected_counts["blind"], expected_counts["viewer0"]) == (0, 3)
    with CaptureQueriesContext(connection) as many_users_queries:
        count_drifted_services(users)
    with CaptureQueriesContext(connection) as two_users_queries:
        count_drifted_services(users[-2:])
    assert len(many_users_queries) == len(two_users_queries)


def test_the_overview_and_the_dashboard_of_a_service_lead_to_what_differs(world: World, admin: User) -> None:
    client = Client()
    client.force_login(admin)
    comparison = DriftComparison.objects.select_related("ecs_service__cluster").get()
    now = get_database_time()
    DriftComparison.objects.update(compared_at=now)
    SyncedCluster.objects.filter(pk=comparison.ecs_service.cluster_id).update(synced_at=now)
    address = reverse("drift-of-service", args=[comparison.pk])
    dashboard = reverse("service-dashboard", args=[world.service.pk])
    text = client.get(dashboard).content.decode()
    assert "Changed outside Slipway" in text
    assert address in text
    assert "1 ECS service changed outside Slipway" in client.get("/").content.decode()
    (placement,) = client.get(reverse("api-service-dashboard", args=[world.service.pk])).json()["places"]
    assert placement["drift"] == {"comparison": comparison.pk, "state": DRIFTED}
    DriftComparison.objects.update(state=DriftComparison.State.IN_STEP)
    assert "Somebody changed this" not in client.get(dashboard).content.decode()
    assert "changed outside Slipway" not in client.get("/").content.decode()
