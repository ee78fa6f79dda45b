"""ASGI middleware that limits size and duration of requests before Django stores them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.http import HttpRequest

from guards.limits import BODY_BYTES, BODY_SECONDS, URL_BYTES
from web.http.error_pages import render_problem
from web.http.problems import build_problem

AsgiMessage = Mapping[str, Any]
AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Application = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

_DISCONNECT: AsgiMessage = {"type": "http.disconnect"}
_TOO_LARGE = f"The request body must be at most {BODY_BYTES}."
_URL_TOO_LONG = f"The URL must be at most {URL_BYTES}. Shorten the query string."
_TOO_SLOW = (
    f"The request body did not arrive within {BODY_SECONDS}. Send less data, or use a faster connection."
)


class RequestLimits:
    """Middleware that rejects requests early: Django alone would store bodies of any size."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        visit = _LimitedRequest(scope, receive, send)
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > URL_BYTES:
            await visit.send_problem(414, "address_too_long", _URL_TOO_LONG)
        elif _get_content_length(scope) > BODY_BYTES:
            await visit.send_problem(413, "too_large", _TOO_LARGE)
        else:
            await self.application(scope, visit.receive, visit.send)


class _LimitedRequest:
    """Request that counts the bytes of its body, and ignores the rest after a rejection."""

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.client_receive = receive
        self.client_send = send
        self.deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        self.size = 0
        self.is_read = False
        self.is_refused = False
        self.has_response = False

    async def receive(self) -> AsgiMessage:
        if self.is_refused:
            return _DISCONNECT
        if self.is_read:
            return await self.client_receive()
        try:
            async with asyncio.timeout_at(self.deadline):
                message = await self.client_receive()
        except TimeoutError:
            return await self._reject(408, "too_slow", _TOO_SLOW)
        self.size += len(message.get("body", b""))
        self.is_read = not message.get("more_body", False)
        if self.size > BODY_BYTES:
            return await self._reject(413, "too_large", _TOO_LARGE)
        return message

    async def send(self, message: AsgiMessage) -> None:
        self.has_response = True
        if not self.is_refused:
            await self.client_send(message)

    async def send_problem(self, status: int, code: str, detail: str) -> None:
        """Send an error in the caller's format, and close the connection."""
        request = HttpRequest()
        request.path = self.scope["path"]
        request.META = {"HTTP_ACCEPT": _get_header(self.scope, b"accept")}
        answer = render_problem(request, status, content=build_problem(status, code=code, detail=detail))
        headers = [
            (b"content-type", answer["Content-Type"].encode()),
            (b"content-length", str(len(answer.content)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        await self.client_send({"type": "http.response.start", "status": status, "headers": headers})
        await self.client_send({"type": "http.response.body", "body": answer.content})

    async def _reject(self, status: int, code: str, detail: str) -> AsgiMessage:
        self.is_refused = True
        if not self.has_response:
            await self.send_problem(status, code, detail)
        return _DISCONNECT


def _get_content_length(scope: AsgiScope) -> int:
    length = _get_header(scope, b"content-length")
    # Servers reject invalid numbers; the longest valid one has this many digits.
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _get_header(scope: AsgiScope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")
