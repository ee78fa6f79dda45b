"""ASGI middleware of WebSockets: origin check, message limits and session."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from channels.sessions import CookieMiddleware, SessionMiddleware
from django.conf import settings
from django.http.request import validate_host

from guards.limits import SOCKET_BYTES, SOCKET_MESSAGES

AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

CLOSE_FORBIDDEN = 4403
CLOSE_TOO_LARGE = 1009
CLOSE_TOO_MANY = 4429
CLOSE_NOT_FOUND = 4404


class OriginValidator:
    """Middleware that rejects sockets from other sites, which carry cookies but no CSRF token."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if is_own_origin(scope):
            await self.application(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": CLOSE_FORBIDDEN})


class SocketLimits:
    """Middleware that closes sockets with too large or too frequent messages."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        arrived: deque[float] = deque(maxlen=SOCKET_MESSAGES)
        is_closed = False

        async def guarded() -> dict[str, Any]:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            now, is_many = clock(), len(arrived) == SOCKET_MESSAGES
            code = CLOSE_TOO_LARGE if _get_message_size(message) > SOCKET_BYTES else 0
            code = CLOSE_TOO_MANY if is_many and now - arrived[0] < 1 else code
            arrived.append(now)
            if not code:
                return message
            nonlocal is_closed
            is_closed = True
            await send({"type": "websocket.close", "code": code})
            return {"type": "websocket.disconnect", "code": code}

        async def sent(message: dict[str, Any]) -> None:
            if not is_closed:
                await send(message)

        await self.application(scope, guarded, sent)


async def reject_unknown_socket(scope: AsgiScope, receive: Receive, send: Send) -> None:
    """Close a socket with an unknown URL, which the router would report as an error."""
    await receive()
    await send({"type": "websocket.close", "code": CLOSE_NOT_FOUND})


def _get_message_size(message: dict[str, Any]) -> int:
    return len(message.get("bytes") or b"") + len((message.get("text") or "").encode("utf-8", "replace"))


def is_own_origin(scope: AsgiScope) -> bool:
    """Return whether the Origin header has the scheme, host and port of this server."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope.get("headers", [])}
    origin = _parse_origin(headers.get(b"origin", ""))
    if origin is None:
        return False
    if origin == _parse_origin(settings.PUBLIC_URL):
        return True
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    host = _parse_origin(f"{scheme}://{headers.get(b'host', '')}")
    # A rebound name resolves to us too; only names that are ours count.
    return origin == host and validate_host(origin[1], settings.ALLOWED_HOSTS)


def _parse_origin(url: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    if port is None or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, host, port


class SocketSessionMiddleware:
    """Sets `scope["session"]` from the session cookie, as pages have it."""

    def __init__(self, application: Application) -> None:
        self.application = CookieMiddleware(SessionMiddleware(application))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await self.application(scope, receive, send)


def get_session_key(scope: AsgiScope) -> str:
    """Return the session key of a socket, or an empty text."""
    session = scope.get("session")
    return (session.session_key if session is not None else None) or ""
