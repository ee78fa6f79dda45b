"""The door of agents: their addresses, beside those of people and programs, and apart from them.

It stands in front of Django. A thousand agents that wait for a task must not hold a thousand threads, and
no session, cookie or form of a page means anything here.
"""

import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.conf import settings

from delegates.protocol import (
    beating,
    completing,
    configurations,
    instance_logs,
    leases,
    leaving,
    polling,
    registering,
    sockets,
    task_logs,
)
from delegates.protocol.problems import NotEncrypted
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.terms import SOCKET_PATH
from delegates.protocol.threads import in_thread
from guards.limits import AGENT_BYTES
from rbac.audit import RequestMark, current_request
from web.outages import OUTAGES, RETRY_AFTER_SECONDS, is_outage, note_outage
from web.problems import MEDIA_TYPE, NOT_FOUND, Problem, TooLarge, document, problem_of

AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[AsgiScope, Any, Any], Awaitable[None]]

PREFIX = "/agent/v1/"
FORBIDDEN = 4403
_TASK = re.compile(r"tasks/([0-9a-fA-F-]{1,40})/(logs|complete)")


# What asks the database and answers; each raises `Problem`.
CALLS: dict[str, Callable[[AgentRequest], Reply]] = {
    "register": registering.register,
    "tasks/renew": leases.renew,
    "tasks/*/logs": task_logs.logged,
    "tasks/*/complete": completing.completed,
    "logs": instance_logs.logged,
    "configuration": configurations.run_reported,
    "deregister": leaving.deregistered,
}
# What waits for something else, and holds no thread while it does.
WAITS: dict[str, Callable[[AgentRequest, Receive], Awaitable[Reply]]] = {
    "heartbeat": beating.beat,
    "tasks/acquire": polling.acquire,
}


class AgentDoor:
    """Serves /agent/v1/ and passes everything else on."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(PREFIX):
            await self.application(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        mark = RequestMark(request_id=request_id, address=_address(scope), source="agent")
        reset = current_request.set(mark)
        try:
            await _send(send, await _answer(scope, receive), request_id)
        finally:
            current_request.reset(reset)


class AgentSocketDoor:
    """Serves /ws/agent/ and passes everything else on.

    Agents are no browsers: who comes with an Origin does not get in here, and whoever has none nowhere else.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["path"] != SOCKET_PATH:
            await self.application(scope, receive, send)
            return
        bearer = _bearer_of(scope)
        if bearer is None:
            await receive()
            await send({"type": "websocket.close", "code": FORBIDDEN})
            return
        await sockets.serve(bearer, receive, send)


def _bearer_of(scope: AsgiScope) -> str | None:
    """What a handshake shows as its session; None for a browser, and for what came in the clear."""
    headers = _headers(scope)
    if "origin" in headers or not _is_encrypted(scope, headers):
        return None
    return AgentRequest(path=SOCKET_PATH, headers=headers).bearer


async def _answer(scope: AsgiScope, receive: Receive) -> Reply:
    try:
        return await _handle(scope, receive)
    except (Problem, *OUTAGES) as problem:
        content = problem_of(problem)
        if content is None:
            raise
        if is_outage(problem):
            note_outage(problem)
        wait = getattr(problem, "retry_after", RETRY_AFTER_SECONDS if is_outage(problem) else 0)
        more = getattr(problem, "more", {})
        return Reply({**content, **more}, status=content["status"], retry_after=wait)


async def _handle(scope: AsgiScope, receive: Receive) -> Reply:
    path, headers = scope["path"].removeprefix(PREFIX), _headers(scope)
    if not _is_encrypted(scope, headers):
        raise NotEncrypted("Agents speak to this Slipway by https:// only. Correct the manager's address.")
    named = _TASK.fullmatch(path)
    name = f"tasks/*/{named[2]}" if named else path
    if "*" in path or (name not in CALLS and name not in WAITS):
        return Reply(document(404, code="not_found", detail=NOT_FOUND), status=404)
    if scope["method"] != "POST":
        detail = "Agents only POST."
        return Reply(document(405, code="method_not_allowed", detail=detail), status=405)
    request = AgentRequest(
        path=path,
        address=_address(scope),
        headers=headers,
        body=await _body(receive),
        task_id=named[1] if named else "",
    )
    return await (WAITS[name](request, receive) if name in WAITS else in_thread(CALLS[name], request))


async def _body(receive: Receive) -> bytes:
    """The body as it came. Raises `TooLarge`."""
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


async def _send(send: Send, reply: Reply, request_id: str) -> None:
    is_problem = reply.status >= 400
    headers = [
        (b"content-type", (MEDIA_TYPE if is_problem else "application/json").encode()),
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


def _headers(scope: AsgiScope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _address(scope: AsgiScope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _is_encrypted(scope: AsgiScope, headers: Mapping[str, str]) -> bool:
    """As for pages: where Slipway is served by https, a proxy in front of it may say that it was."""
    if not settings.SECURE_SSL_REDIRECT:
        return True
    forwarded = headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return scope.get("scheme") in ("https", "wss") or forwarded in ("https", "wss")
