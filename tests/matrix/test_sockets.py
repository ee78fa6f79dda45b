"""Every socket of browsers × everybody: it stays open for who may listen, and is closed for all others."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser

from config.urls import websocket_urlpatterns
from rbac.models import Scope, User
from tests.api.needs import ADMIN, EVERY_STANDING, HERE, Standing
from tests.api.world import make_world
from tests.fixtures.sockets import session_of
from tests.matrix.people import make_people

UNKNOWN, REFUSED = 4401, 4403


def may_watch_an_execution(who: Standing) -> bool:
    return who.has("core_pipeline_view", HERE)


def may_listen_to_delegates(who: Standing) -> bool:
    """Each hears of the delegates they may see only: tests/delegates/test_delegate_socket.py."""
    return who.has_anywhere("core_delegate_view")


def may_count_approvals(who: Standing) -> bool:
    """Whoever is signed in hears how many wait for them: tests/approvals/test_badge.py."""
    return True


def may_watch_a_service(who: Standing) -> bool:
    return who.has("core_service_view", HERE)


SOCKETS = {
    "ws/executions/<uuid:pk>/": may_watch_an_execution,
    "ws/delegates/": may_listen_to_delegates,
    "ws/services/<int:pk>/": may_watch_a_service,
    "ws/approvals/": may_count_approvals,
}


def test_every_socket_has_a_row() -> None:
    assert {str(pattern.pattern) for pattern in websocket_urlpatterns} == set(SOCKETS)


@pytest.mark.django_db(transaction=True)
def test_a_socket_opens_for_who_may_listen(project: Scope) -> None:
    people = make_people()
    world = make_world(project, people[ADMIN], people[ADMIN])
    for pattern, may_listen in SOCKETS.items():
        address = "/" + pattern.replace("<uuid:pk>", str(world.execution.pk)).replace(
            "<int:pk>", str(world.service.pk)
        )
        expected = {str(who): None if may_listen(who) else REFUSED for who in EVERY_STANDING}
        found = async_to_sync(close_codes)(people, address)
        assert {str(who): found[who] for who in EVERY_STANDING} == expected
        assert async_to_sync(close_code_of)(AnonymousUser(), address) == UNKNOWN


async def close_codes(people: dict[Standing, User], address: str) -> dict[Standing, int | None]:
    return {who: await close_code_of(person, address) for who, person in people.items()}


async def close_code_of(person: User | AnonymousUser, address: str) -> int | None:
    """Open a socket and return the code it is closed with, None where it stays open."""
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": address,
        "query_string": b"",
        "headers": [],
        "session": await session_of(person),
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=60))["type"] == "websocket.accept"
    message = await socket.receive_output(timeout=60)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=60)
    return message.get("code") if message["type"] == "websocket.close" else None
