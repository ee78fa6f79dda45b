"""The socket of a dashboard: whoever looks at a service hears that something of it has changed."""

import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.urls import websocket_urlpatterns
from deployments.models import StageExecution
from inventory.dashboards.broadcaster import read_service_fingerprints
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from rbac.models import User
from steps.states import Status
from tests.api.world import World
from tests.fixtures.sockets import session_of

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60
pytestmark = pytest.mark.django_db(transaction=True)


async def opened(person: User, pk: int) -> ApplicationCommunicator:
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": f"/ws/services/{pk}/",
        "query_string": b"",
        "headers": [],
        "session": await session_of(person),
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(PATIENCE))["type"] == "websocket.accept"
    return socket


async def heard(socket: ApplicationCommunicator) -> str:
    return str(json.loads((await socket.receive_output(PATIENCE))["text"])["type"])


async def test_every_viewer_hears_that_a_task_has_come(world: World, admin: User) -> None:
    first, second = await opened(admin, world.service.pk), await opened(admin, world.service.pk)
    assert (await heard(first), await heard(second)) == ("watching", "watching")
    # Until the hub has looked once it has nothing to compare with.
    for number in range(PATIENCE):
        await database_sync_to_async(EcsServiceRecord.objects.update)(running=7 + number)
        if not await first.receive_nothing(1):
            break
    assert (await heard(first), await heard(second)) == ("changed", "changed")
    for socket in (first, second):
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(PATIENCE)


async def test_a_key_beyond_every_number_is_refused(world: World, admin: User) -> None:
    socket = await opened(admin, 10**30)
    assert await socket.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4403}
    await socket.send_input({"type": "websocket.disconnect", "code": 4403})
    await socket.wait(PATIENCE)


def test_a_service_looks_otherwise_once_its_dashboard_does(world: World) -> None:
    pk = world.service.pk
    before = read_service_fingerprints({pk})
    assert read_service_fingerprints({pk}) == before
    ServiceInstance.objects.update(health="UNHEALTHY")
    sick = read_service_fingerprints({pk})
    StageExecution.objects.update(status=Status.RUNNING)
    assert len({before[pk], sick[pk], read_service_fingerprints({pk})[pk]}) == 3


def test_many_services_are_looked_at_with_as_few_queries_as_one(world: World) -> None:
    for services in ({world.service.pk}, set(range(1, 200))):
        with CaptureQueriesContext(connection) as asked:
            read_service_fingerprints(services)
        assert len(asked) == 3
