"""The door of agents asked as a server asks it: ASGI messages in, ASGI messages out."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from asgiref.testing import ApplicationCommunicator

from config.asgi import application
from delegates.protocol.requests import run_in_thread

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60.0


def _build_scope(kind: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": kind,
        "method": "POST",
        "scheme": "http" if kind == "http" else "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "client": ("198.51.100.7", 1234),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


class Call:
    """One POST that is under way."""

    def __init__(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        bearer: str = "",
        method: str = "POST",
        **headers: str,
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        scope = _build_scope("http", path, {"authorization": f"Bearer {bearer}", **headers})
        self.app = ApplicationCommunicator(application, scope | {"method": method})
        self._message = {"type": "http.request", "body": content}

    async def start(self) -> None:
        await self.app.send_input(self._message)

    async def disconnect(self) -> None:
        await self.app.send_input({"type": "http.disconnect"})

    async def read_response(self) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Return status, content and headers."""
        start = await self.app.receive_output(PATIENCE)
        body = await self.app.receive_output(PATIENCE)
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        await self.app.wait()
        return start["status"], json.loads(body["body"]), headers


async def post(
    path: str, body: Mapping[str, Any] | bytes, bearer: str = "", **headers: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Send one POST request, and return its response."""
    call = Call(path, body, bearer, **headers)
    await call.start()
    return await call.read_response()


class Socket:
    """A socket of an agent."""

    def __init__(self, bearer: str, path: str = "/ws/agent/", **headers: str) -> None:
        scope = _build_scope("websocket", path, {"authorization": f"Bearer {bearer}", **headers})
        self.app = ApplicationCommunicator(application, scope)

    async def open(self) -> dict[str, Any]:
        """Connect, and return the first message of the server."""
        await self.app.send_input({"type": "websocket.connect"})
        message: dict[str, Any] = await self.app.receive_output(PATIENCE)
        return message

    async def send(self, message: Mapping[str, Any] | str) -> None:
        text = message if isinstance(message, str) else json.dumps(message)
        await self.app.send_input({"type": "websocket.receive", "text": text})

    async def receive(self) -> dict[str, Any]:
        """Return the next message: the content of a notice, or the close."""
        message: dict[str, Any] = await self.app.receive_output(PATIENCE)
        return json.loads(message["text"]) if message["type"] == "websocket.send" else message

    async def close(self, code: int = 1000) -> None:
        await self.app.send_input({"type": "websocket.disconnect", "code": code})
        await self.app.wait(PATIENCE)


async def wait_for_condition(question: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not await question():
            await asyncio.sleep(0.01)


async def wait_for_value(question: Callable[[], object], expected: object) -> None:
    """Wait until the database says so."""

    async def has_value() -> bool:
        return await run_in_thread(question) == expected

    await wait_for_condition(has_value)
