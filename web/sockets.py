"""What every WebSocket passes before a consumer sees it: where it comes from, and who it is."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from channels.auth import AuthMiddleware
from channels.sessions import CookieMiddleware, SessionMiddleware
from django.conf import settings
from django.http.request import validate_host

AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

FORBIDDEN = 4403


class OriginValidator:
    """Refuses sockets opened by other sites: cookies come with those too, no CSRF token does."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if is_own_origin(scope):
            await self.application(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": FORBIDDEN})


def is_own_origin(scope: AsgiScope) -> bool:
    """Say whether the Origin header has the scheme, host and port of this server, given or as addressed."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope.get("headers", [])}
    origin = _parts(headers.get(b"origin", ""))
    if origin is None:
        return False
    if origin == _parts(settings.PUBLIC_URL):
        return True
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    host = _parts(f"{scheme}://{headers.get(b'host', '')}")
    # A rebound name resolves to us too; only names that are ours count.
    return origin == host and validate_host(origin[1], settings.ALLOWED_HOSTS)


def _parts(url: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    if port is None or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, host, port


class SessionPrincipalMiddleware:
    """Sets `scope["user"]` from the session cookie, as pages do."""

    def __init__(self, application: Application) -> None:
        self.application = CookieMiddleware(SessionMiddleware(AuthMiddleware(application)))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await self.application(scope, receive, send)
