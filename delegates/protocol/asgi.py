"""ASGI applications of the agent protocol: /agent/v1/ and /ws/agent/.

They run in front of Django: a thousand polling agents must not occupy a thousand threads. Sessions, cookies
and forms of pages have no effect here.
"""

import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.conf import settings

from delegates.protocol import completions, configurations, connections, leases, logs, registrations
from delegates.protocol.limits import SOCKET_PATH
from delegates.protocol.problems import NotEncrypted
from delegates.protocol.requests import AgentReply, AgentRequest, run_in_thread
from guards.limits import AGENT_BYTES
from guards.log_lines import bind_log_fields
from guards.metrics import SOCKETS
from rbac.audit import RequestInfo, current_request
from web.http.outages import OUTAGE_ERRORS, RETRY_AFTER_SECONDS, is_outage, log_outage
from web.http.problems import (
    NOT_FOUND_DETAIL,
    PROBLEM_MEDIA_TYPE,
    Problem,
    TooLarge,
    build_problem,
    convert_exception,
)

AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[AsgiScope, Any, Any], Awaitable[None]]

PREFIX = "/agent/v1/"
FORBIDDEN = 4403
_TASK = re.compile(r"tasks/([0-9a-fA-F-]{1,40})/(logs|complete)")


# Handlers with database queries; each raises `Problem`.
ROUTES: dict[str, Callable[[AgentRequest], AgentReply]] = {
    "register": registrations.register_agent,
    "tasks/renew": leases.renew_leases_request,
    "tasks/*/logs": logs.task_log_request,
    "tasks/*/complete": completions.complete_task_request,
    "logs": logs.agent_log_request,
    "configuration": configurations.record_configuration_run_request,
    "configuration/secrets": configurations.send_secrets_request,
    "deregister": registrations.deregister_agent,
}
# Handlers that wait for something without a thread.
ASYNC_ROUTES: dict[str, Callable[[AgentRequest, Receive], Awaitable[AgentReply]]] = {
    "heartbeat": connections.heartbeat_request,
    "tasks/acquire": connections.acquire_request,
}


class AgentHttpApplication:
    """Serves /agent/v1/ and passes everything else on."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(PREFIX):
            await self.application(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        mark = RequestInfo(request_id=request_id, address=_get_address(scope), source="agent")
        reset = current_request.set(mark)
        try:
            with bind_log_fields(request_id=request_id):
                await _send(send, await _dispatch(scope, receive), request_id)
        finally:
            current_request.reset(reset)


class AgentSocketApplication:
    """ASGI application that serves /ws/agent/ and passes on everything else.

    Agents are not browsers. A request with an Origin header is refused here, a request without one everywhere
    else.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["path"] != SOCKET_PATH:
            with SOCKETS.labels("page").track_inprogress():
                await self.application(scope, receive, send)
            return
        bearer = _get_bearer(scope)
        if bearer is None:
            await receive()
            await send({"type": "websocket.close", "code": FORBIDDEN})
            return
        with SOCKETS.labels("delegate").track_inprogress():
            await connections.serve_socket(bearer, receive, send)


def _get_bearer(scope: AsgiScope) -> str | None:
    """Return the session token of a handshake; None for a browser and for an unencrypted request."""
    headers = _parse_headers(scope)
    if "origin" in headers or not _is_encrypted(scope, headers):
        return None
    return AgentRequest(path=SOCKET_PATH, headers=headers).bearer


async def _dispatch(scope: AsgiScope, receive: Receive) -> AgentReply:
    try:
        return await _handle(scope, receive)
    except (Problem, *OUTAGE_ERRORS) as problem:
        content = convert_exception(problem)
        if content is None:
            raise
        if is_outage(problem):
            log_outage(problem)
        wait = getattr(problem, "retry_after", RETRY_AFTER_SECONDS if is_outage(problem) else 0)
        more = getattr(problem, "more", {})
        return AgentReply({**content, **more}, status=content["status"], retry_after=wait)


async def _handle(scope: AsgiScope, receive: Receive) -> AgentReply:
    path, headers = scope["path"].removeprefix(PREFIX), _parse_headers(scope)
    if not _is_encrypted(scope, headers):
        raise NotEncrypted("Agents must use https://. Set HARNESS_URL to such an address.")
    named = _TASK.fullmatch(path)
    name = f"tasks/*/{named[2]}" if named else path
    if "*" in path or (name not in ROUTES and name not in ASYNC_ROUTES):
        return AgentReply(build_problem(404, code="not_found", detail=NOT_FOUND_DETAIL), status=404)
    if scope["method"] != "POST":
        detail = "Agents must use POST."
        return AgentReply(build_problem(405, code="method_not_allowed", detail=detail), status=405)
    request = AgentRequest(
        path=path,
        address=_get_address(scope),
        headers=headers,
        body=await _read_body(receive),
        task_id=named[1] if named else "",
    )
    with bind_log_fields(delegate_task=request.task_id):
        if name in ASYNC_ROUTES:
            return await ASYNC_ROUTES[name](request, receive)
        return await run_in_thread(ROUTES[name], request)


async def _read_body(receive: Receive) -> bytes:
    """Return the raw body. Raises `TooLarge`."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > AGENT_BYTES:
            raise TooLarge(f"A message may have {AGENT_BYTES} at most. Send less at once.")
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send(send: Send, reply: AgentReply, request_id: str) -> None:
    is_problem = reply.status >= 400
    headers = [
        (b"content-type", (PROBLEM_MEDIA_TYPE if is_problem else "application/json").encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-request-id", request_id.encode()),
    ]
    if reply.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if reply.retry_after:
        headers.append((b"retry-after", str(reply.retry_after).encode()))
    body = json.dumps(reply.content, separators=(",", ":")).encode()
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _parse_headers(scope: AsgiScope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _get_address(scope: AsgiScope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _is_encrypted(scope: AsgiScope, headers: Mapping[str, str]) -> bool:
    """Return whether the request is encrypted; behind a TLS proxy the forwarded header decides."""
    if not settings.SECURE_SSL_REDIRECT:
        return True
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return scope.get("scheme") in ("https", "wss") or forwarded in ("https", "wss")
