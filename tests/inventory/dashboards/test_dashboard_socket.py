"""The socket of a dashboard: whoever looks at a service hears that something of it has changed."""

import json
import time
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Service
from config.urls import websocket_urlpatterns
from deployments.models import StageExecution
from inventory.dashboards.live import read_dashboard_snapshots, read_service_facts
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from rbac.models import User
from steps.states import Status
from tests.api.sample_project import World
from tests.fixtures.sockets import session_of

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60
pytestmark = pytest.mark.django_db(transaction=True)


async def open_socket(person: User, pk: int) -> ApplicationCommunicator:
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/ws/live/",
        "query_string": f"topic=service-dashboard:{pk}&age=0".encode(),
        "headers": [],
        "session": await session_of(person),
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE))["type"] == "websocket.accept"
    return socket


async def receive_state(socket: ApplicationCommunicator) -> str:
    return str(json.loads((await socket.receive_output(PATIENCE))["text"])["type"])


async def test_every_viewer_hears_that_a_task_has_come(world: World, admin: User) -> None:
    first, second = await open_socket(admin, world.service.pk), await open_socket(admin, world.service.pk)
    assert (await receive_state(first), await receive_state(second)) == ("watching", "watching")
    await database_sync_to_async(EcsServiceRecord.objects.update)(running=7)
    assert (await receive_state(first), await receive_state(second)) == ("changed", "changed")
    for socket in (first, second):
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(PATIENCE)


async def test_a_key_beyond_every_number_is_refused(world: World, admin: User) -> None:
    socket = await open_socket(admin, 10**30)
    assert await socket.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4403}
    await socket.send_input({"type": "websocket.disconnect", "code": 4403})
    await socket.wait(PATIENCE)


async def test_a_service_whose_dashboard_is_opened_later_is_read_too(world: World, admin: User) -> None:
    other = await database_sync_to_async(Service.objects.create)(
        scope=world.scope, identifier="other", name="Other"
    )
    first = await open_socket(admin, world.service.pk)
    assert await receive_state(first) == "watching"
    second = await open_socket(admin, other.pk)
    assert await receive_state(second) == "watching"
    # Nobody knows how it looked when its page was read.
    assert await receive_state(second) == "changed"
    for socket in (first, second):
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(PATIENCE)


def test_a_service_looks_otherwise_once_its_dashboard_does(world: World) -> None:
    pk = world.service.pk
    before = read_service_facts({pk})
    assert read_service_facts({pk}) == before
    ServiceInstance.objects.update(health="UNHEALTHY")
    unhealthy_facts = read_service_facts({pk})
    StageExecution.objects.update(status=Status.RUNNING)
    assert len({before[pk], unhealthy_facts[pk], read_service_facts({pk})[pk]}) == 3


def test_many_services_are_looked_at_with_as_few_queries_as_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That they are open was recorded just now.
    monkeypatch.setattr("inventory.dashboards.live._recorded_at", time.monotonic())
    for services in ({world.service.pk}, set(range(1, 200))):
        with CaptureQueriesContext(connection) as queries:
            read_dashboard_snapshots([str(pk) for pk in services])
        assert len(queries) == 4
