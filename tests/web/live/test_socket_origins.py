"""Sockets of other sites are refused."""

from typing import Any

import pytest

from guards.limits import SOCKET_BYTES, SOCKET_MESSAGES
from web.live.socket_middleware import OriginValidator, SocketLimits, is_own_origin


def handshake(origin: str | None, host: str = "127.0.0.1:8000", scheme: str = "ws") -> dict[str, Any]:
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode("latin-1")))
    return {"type": "websocket", "scheme": scheme, "headers": headers}


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "ws"),
        ("http://localhost:8123", "localhost:8123", "ws"),
        ("http://[::1]:8000", "[::1]:8000", "ws"),
        ("https://localhost", "localhost", "wss"),
        ("https://localhost", "localhost:443", "wss"),
        ("https://slipway.example", "anything", "ws"),
    ],
)
def test_our_own_pages_may_open_sockets(settings: Any, origin: str, host: str, scheme: str):
    settings.PUBLIC_URL = "https://slipway.example"
    assert is_own_origin(handshake(origin, host, scheme))


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        (None, "127.0.0.1:8000", "ws"),
        ("null", "127.0.0.1:8000", "ws"),
        ("", "127.0.0.1:8000", "ws"),
        ("http://evil.example", "127.0.0.1:8000", "ws"),
        ("http://127.0.0.1:8001", "127.0.0.1:8000", "ws"),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", "ws"),
        ("http://rebound.example:8000", "rebound.example:8000", "ws"),
        ("http://127.0.0.1:8000.evil.example", "127.0.0.1:8000", "ws"),
        ("http://127.0.0.1:99999", "127.0.0.1:8000", "ws"),
        ("http://[::1", "127.0.0.1:8000", "ws"),
        ("file://", "127.0.0.1:8000", "ws"),
        ("http://\xff", "\x7f", "ws"),
    ],
)
def test_other_sites_may_not(settings: Any, origin: str | None, host: str, scheme: str):
    settings.PUBLIC_URL = "http://127.0.0.1:8000"
    assert not is_own_origin(handshake(origin, host, scheme))


async def test_a_refused_socket_is_closed_before_it_opens():
    messages: list[dict[str, Any]] = []

    async def fail_if_called(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await OriginValidator(fail_if_called)(handshake("http://evil.example"), receive, send)
    assert messages == [{"type": "websocket.close", "code": 4403}]


async def closed_with(*messages: dict[str, Any]) -> list[int]:
    """The codes that a socket is closed with which says these things at once, and then nothing."""
    waiting = [*messages, {"type": "websocket.disconnect", "code": 1000}]
    sent_messages: list[dict[str, Any]] = []

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": message["type"]})
        await send({"type": "websocket.send", "text": "still here"})

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent_messages.append(message)

    await SocketLimits(echo)({"type": "websocket", "path": "/"}, receive, send)
    closes = [number for number, message in enumerate(sent_messages) if message["type"] == "websocket.close"]
    assert closes in ([], [len(sent_messages) - 1])
    return [sent_messages[number]["code"] for number in closes]


SAID = {"type": "websocket.receive", "text": "x", "bytes": None}


@pytest.mark.parametrize(
    ("messages", "codes"),
    [
        ([SAID] * SOCKET_MESSAGES, []),
        ([SAID] * (SOCKET_MESSAGES + 1), [4429]),
        ([SAID | {"text": "x" * SOCKET_BYTES}], []),
        ([SAID | {"text": "x" * (SOCKET_BYTES + 1)}], [1009]),
        ([SAID | {"text": "é" * (SOCKET_BYTES // 2 + 1)}], [1009]),
        ([SAID | {"text": None, "bytes": b"x" * (SOCKET_BYTES + 1)}], [1009]),
        ([SAID | {"text": "\ud800"}], []),
    ],
    ids=[
        "as often as it may",
        "too often",
        "as large as it may",
        "too large",
        "large",
        "bytes",
        "half a pair",
    ],
)
async def test_a_browser_that_says_too_much_is_hung_up_on(messages: Any, codes: list[int]):
    assert await closed_with(*messages) == codes
