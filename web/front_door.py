"""What every HTTP request passes first: addresses and bodies of a size, senders that do not dawdle."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.http import HttpRequest

from guards.limits import ADDRESS_BYTES, BODY_BYTES, BODY_SECONDS
from web.problems import document
from web.views import refusal

Message = Mapping[str, Any]
AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

_DISCONNECT: Message = {"type": "http.disconnect"}
_TOO_LARGE = f"A body may have {BODY_BYTES} at most. Send less."
_TOO_LONG = f"An address may have {ADDRESS_BYTES} at most. Shorten what follows the question mark."
_TOO_SLOW = f"A body has to arrive within {BODY_SECONDS}. Try again, with less or over a faster line."


class FrontDoor:
    """Refuses before anything is kept: Django by itself would store a body of any size, for any time."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        visit = _Visit(scope, receive, send)
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > ADDRESS_BYTES:
            await visit.refuse(414, "address_too_long", _TOO_LONG)
        elif _declared(scope) > BODY_BYTES:
            await visit.refuse(413, "too_large", _TOO_LARGE)
        else:
            await self.application(scope, visit.receive, visit.send)


class _Visit:
    """One request: counts what arrives of its body, and falls silent once it was refused."""

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.from_client = receive
        self.to_client = send
        self.until = asyncio.get_running_loop().time() + BODY_SECONDS
        self.size = 0
        self.is_read = False
        self.is_refused = False
        self.has_answer = False

    async def receive(self) -> Message:
        if self.is_refused:
            return _DISCONNECT
        if self.is_read:
            return await self.from_client()
        try:
            async with asyncio.timeout_at(self.until):
                message = await self.from_client()
        except TimeoutError:
            return await self._refused(408, "too_slow", _TOO_SLOW)
        self.size += len(message.get("body", b""))
        self.is_read = not message.get("more_body", False)
        if self.size > BODY_BYTES:
            return await self._refused(413, "too_large", _TOO_LARGE)
        return message

    async def send(self, message: Message) -> None:
        self.has_answer = True
        if not self.is_refused:
            await self.to_client(message)

    async def refuse(self, status: int, code: str, detail: str) -> None:
        """Answer in the form that the caller reads, and hang up: what still comes is not wanted."""
        request = HttpRequest()
        request.path = self.scope["path"]
        request.META = {"HTTP_ACCEPT": _header(self.scope, b"accept")}
        answer = refusal(request, status, content=document(status, code=code, detail=detail))
        headers = [
            (b"content-type", answer["Content-Type"].encode()),
            (b"content-length", str(len(answer.content)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        await self.to_client({"type": "http.response.start", "status": status, "headers": headers})
        await self.to_client({"type": "http.response.body", "body": answer.content})

    async def _refused(self, status: int, code: str, detail: str) -> Message:
        self.is_refused = True
        if not self.has_answer:
            await self.refuse(status, code, detail)
        return _DISCONNECT


def _declared(scope: AsgiScope) -> int:
    length = _header(scope, b"content-length")
    # Servers refuse what is no number; the longest right one has these digits.
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _header(scope: AsgiScope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")
