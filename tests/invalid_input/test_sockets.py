"""Every socket with bad addresses and bad messages: closed or open, and never an error of ours."""

from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

from config.urls import websocket_routes, websocket_urlpatterns
from rbac.models import User
from tests.api.sample_project import World
from tests.fixtures.sockets import session_of
from tests.invalid_input.invalid_values import TEXTS
from web.live.socket_middleware import SocketLimits

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60
pytestmark = pytest.mark.django_db(transaction=True)
QUERIES = [b"after=" + text.encode("utf-8", "replace") for text in TEXTS.values()] + [
    b"after=\xff\xfe",
    b"after=%ff%00",
    b"after=1&after=x",
    b"&" * 2000,
    b"=" * 2000,
    b"after",
]
SAID: list[dict[str, Any]] = [
    {"type": "websocket.receive", "text": text}
    for text in ("", "{", "[" * 10_000, '{"type": "state"}', '{"a": NaN}', "null", "\0", "\ud800")
] + [{"type": "websocket.receive", "bytes": data} for data in (b"", b"\xff\xfe", b"\x00" * 1000)]


async def communicator(address: str, query: bytes, user: User) -> ApplicationCommunicator:
    scope = {"type": "websocket", "path": address, "query_string": query, "headers": []}
    scope["session"] = await session_of(user)
    return ApplicationCommunicator(SocketLimits(websocket_routes), scope)


async def open_and_close(address: str, query: bytes, user: User, *messages: dict[str, Any]) -> None:
    """Raises whatever the consumer raises."""
    socket = await communicator(address, query, user)
    await socket.send_input({"type": "websocket.connect"})
    answer = await socket.receive_output(PATIENCE)
    assert answer["type"] in ("websocket.accept", "websocket.close")
    for message in messages:
        await socket.send_input(message)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(PATIENCE)


def test_the_socket_under_test_is_all_there_are() -> None:
    assert [str(route.pattern) for route in websocket_urlpatterns] == [
        "ws/executions/<uuid:pk>/",
        "ws/approvals/",
        "ws/live/",
    ]


async def test_no_query_breaks_a_socket(world: World, admin: User) -> None:
    for query in QUERIES:
        await open_and_close(f"/ws/executions/{world.execution.pk}/", query, admin)


async def test_no_topic_breaks_the_socket_of_news(world: World, admin: User) -> None:
    topic_query = f"topic=executions:{world.scope.pk}&".encode()
    for query in QUERIES:
        await open_and_close("/ws/live/", topic_query + query.replace(b"after", b"age"), admin)
        await open_and_close("/ws/live/", topic_query + query.replace(b"after=", b"topic=pipeline:"), admin)


async def test_no_message_breaks_a_socket(world: World, admin: User) -> None:
    for message in SAID:
        await open_and_close(f"/ws/executions/{world.execution.pk}/", b"", admin, message)
        await open_and_close("/ws/live/", f"topic=executions:{world.scope.pk}".encode(), admin, message)


@pytest.mark.parametrize("address", ["/ws/executions/x/", "/ws/", "/ws/executions/%00/", "/" + "x" * 5000])
async def test_an_address_that_is_none_is_closed(address: str) -> None:
    socket = await communicator(address, b"", User())
    await socket.send_input({"type": "websocket.connect"})
    assert await socket.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4404}
    await socket.wait(PATIENCE)
