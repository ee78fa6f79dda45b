"""Connections of agents: WebSockets, long polls, and heartbeats by POST."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q

from delegates.connectivity import LATE_AFTER
from delegates.live import publish_delegates_changed
from delegates.models import DelegateEvent, DelegateInstance
from delegates.protocol import leases
from delegates.protocol.broadcaster import AgentBroadcaster, get_agent_broadcaster
from delegates.protocol.events import get_instance_label, notify_back, record_event
from delegates.protocol.heartbeats import EndedSession, HeartbeatResponse, parse_heartbeat
from delegates.protocol.limits import MAX_WAIT_SECONDS
from delegates.protocol.problems import DelegateRejected, ScopeArchived, SessionInvalid, TokenRevoked
from delegates.protocol.requests import (
    AgentReply,
    AgentRequest,
    RequestFields,
    parse_json_object,
    run_in_thread,
)
from delegates.protocol.sessions import get_session_instance
from guards.limits import AGENT_TASKS
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage
from web.http.problems import BadInput, Problem, ServiceUnavailable

SocketReceive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
UNAUTHENTICATED = 4401
BAD_MESSAGE = 4400
TRY_AGAIN_LATER = 1013
# What is written as heard may be a little later than it was heard here.
_CLOCK_SLACK: Final = timedelta(seconds=1)
# An agent that does not read its messages is disconnected; it reconnects and polls.
MAX_UNREAD = 100


class AgentSocket:
    """WebSocket of an instance."""

    __slots__ = ("heard_at", "_send", "_unread", "delegate_id", "hub", "instance_id", "is_over")

    def __init__(self, instance_id: int, delegate_id: int, hub: AgentBroadcaster, send: Send) -> None:
        self.instance_id = instance_id
        self.delegate_id = delegate_id
        self.hub = hub
        # Set when this process closes the socket; its end is then not an event.
        self.is_over = False
        self.heard_at = time.monotonic()
        self._send = send
        self._unread = 0

    def send_notice(self, text: str) -> None:
        """Send a notice as soon as the socket accepts it."""
        if not text or self.is_over:
            return
        if self._unread >= MAX_UNREAD:
            self._close(TRY_AGAIN_LATER, "unread")
            return
        self._unread += 1
        _reference_job(asyncio.ensure_future(self._send_text(text)))

    def end(self, reason: str) -> None:
        """Close the socket, because the session has ended."""
        self._close(UNAUTHENTICATED, reason)

    def _close(self, code: int, reason: str) -> None:
        if not self.is_over:
            self.is_over = True
            _reference_job(asyncio.ensure_future(self._send_close(code, reason)))

    async def _send_close(self, code: int, reason: str) -> None:
        await _send_quietly(self._send, {"type": "websocket.close", "code": code, "reason": reason})

    async def _send_text(self, text: str) -> None:
        await _send_quietly(self._send, {"type": "websocket.send", "text": text})
        self._unread -= 1

    async def receive_messages(self, receive: SocketReceive) -> None:
        """Receive the agent's messages until the socket closes."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            if not self.is_over:
                self._handle_message(message.get("text") or "")

    def _handle_message(self, text: str) -> None:
        try:
            fields = RequestFields(parse_json_object(text))
            if fields.body.get("type") == "heartbeat":
                self.hub.heartbeats.add(parse_heartbeat(self.instance_id, fields), self._handle_response)
        except BadInput as problem:
            self._close(BAD_MESSAGE, problem.detail[:100])

    def _handle_response(self, response: HeartbeatResponse) -> None:
        if isinstance(response, EndedSession):
            self.end(response.code)
        else:
            self.heard_at = time.monotonic()
            self.send_notice(json.dumps({"type": "heartbeat_ack", **response}))


async def serve_socket(bearer: str, receive: SocketReceive, send: Send) -> None:
    """Serve one socket until it closes; an idle socket holds no row and no headers."""
    await receive()
    try:
        instance_id, delegate_id = await run_in_thread(record_connect, bearer)
    except Problem as problem:
        await _refuse(send, UNAUTHENTICATED, problem.code)
        return
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        await _refuse(send, TRY_AGAIN_LATER, "not_available")
        return
    async with get_agent_broadcaster() as hub:
        socket = AgentSocket(instance_id, delegate_id, hub, send)
        try:
            with hub.register(socket):
                await send({"type": "websocket.accept"})
                await socket.receive_messages(receive)
        finally:
            # An agent's close code does not show whether this process ends.
            if not (socket.is_over or hub.is_closing or hub.has_instance(instance_id)):
                # A heartbeat written after this would mark it as connected.
                await hub.heartbeats.forget(instance_id)
                await run_in_thread(record_disconnect, instance_id, time.monotonic() - socket.heard_at)


async def _refuse(send: Send, code: int, reason: str) -> None:
    # Opened first: before that there is only a status, and agents read the code.
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code, "reason": reason})


def record_connect(bearer: str) -> tuple[int, int]:
    """Record an instance's socket, and return the ids of instance and delegate.

    Raises the errors of `get_session_instance`.
    """
    instance = get_session_instance(bearer)
    now = get_database_time()
    was = (instance.connection, instance.suspect_since)
    DelegateInstance.objects.filter(pk=instance.pk).update(
        connection=DelegateInstance.Connection.WEBSOCKET, suspect_since=None, last_heartbeat_at=now
    )
    seen_at = instance.last_heartbeat_at
    # One that was heard of lately is not away, and does not become so at this moment.
    if instance.delegate.away_since is not None or seen_at is None or now - seen_at > LATE_AFTER:
        notify_back([instance.delegate_id])
    if was != (DelegateInstance.Connection.WEBSOCKET, None):
        text = f"{get_instance_label(instance)} is connected by WebSocket."
        record_event(instance, DelegateEvent.Kind.CONNECTED, text, at=now)
        publish_delegates_changed(instance.delegate_id)
    return instance.pk, instance.delegate_id


def record_disconnect(instance_id: int, silent_seconds: float) -> None:
    """Record that an instance's socket closed; it gets no new tasks until it reconnects.

    `silent_seconds` is how long ago it was heard here: one that another web process has heard since has
    reconnected there before its old connection timed out.
    """
    now = get_database_time()
    heard_at = now - timedelta(seconds=silent_seconds) + _CLOCK_SLACK
    alive = DelegateInstance.objects.filter(
        pk=instance_id, suspect_since=None, connection=DelegateInstance.Connection.WEBSOCKET
    ).exclude(Q(status=DelegateInstance.Status.GONE) | Q(last_heartbeat_at__gt=heard_at))
    if not alive.update(suspect_since=now):
        return
    instance = DelegateInstance.objects.select_related("delegate").get(pk=instance_id)
    text = (
        f"The WebSocket of {get_instance_label(instance)} closed; it gets no tasks until its next heartbeat."
    )
    record_event(instance, DelegateEvent.Kind.SUSPECT, text, at=now)
    publish_delegates_changed(instance.delegate_id)


_running_jobs: set["asyncio.Future[None]"] = set()


def _reference_job(job: "asyncio.Future[None]") -> None:
    """Keep a reference to a job, because the event loop only keeps a weak one."""
    _running_jobs.add(job)
    job.add_done_callback(_running_jobs.discard)


async def _send_quietly(send: Send, message: dict[str, Any]) -> None:
    """Send a message and ignore a closed socket; `receive` reports it."""
    try:
        await send(message)
    except (OSError, RuntimeError):
        return


PollReceive = Callable[[], Awaitable[Mapping[str, Any]]]
# Spreads the ends of polls that began together after a restart.
_SPREAD_SHARE, _PARTS = 0.25, 64


class LongPoll:
    """Long poll of an instance for new tasks."""

    def __init__(self, instance_id: int, delegate_id: int) -> None:
        self.instance_id = instance_id
        self.delegate_id = delegate_id
        self.notice_received = asyncio.Event()

    def send_notice(self, _text: str) -> None:
        """Wake the poll to read again."""
        self.notice_received.set()

    def end(self, _reason: str) -> None:
        """Wake the poll, which is then refused."""
        self.notice_received.set()


async def acquire_request(request: AgentRequest, receive: PollReceive) -> AgentReply:
    """POST /agent/v1/tasks/acquire: return tasks, or none after `wait_seconds`."""
    fields = request.fields()
    free = fields.get_integer("free", 0, AGENT_TASKS, default=1)
    seconds = min(fields.get_number("wait_seconds"), MAX_WAIT_SECONDS)
    if seconds == 0:
        return _build_reply(await run_in_thread(acquire_documents, request.bearer, free), held_seconds=0.0)
    return await _wait_for_tasks(request, receive, free=free, seconds=seconds)


async def _wait_for_tasks(
    request: AgentRequest, receive: PollReceive, *, free: int, seconds: float
) -> AgentReply:
    clock = asyncio.get_running_loop().time
    began = heard_at = clock()
    until = began + seconds
    async with get_agent_broadcaster() as hub:
        poll = LongPoll(*await run_in_thread(_open_poll, request.bearer, hub.has_instance))
        until -= seconds * _SPREAD_SHARE * (poll.instance_id % _PARTS) / _PARTS
        disconnect = asyncio.ensure_future(receive())
        disconnect.add_done_callback(lambda _: poll.notice_received.set())
        try:
            with hub.register(poll):
                while True:
                    poll.notice_received.clear()
                    held_seconds = clock() - began
                    tasks = await run_in_thread(acquire_documents, request.bearer, free, True)
                    heard_at = clock()
                    if (
                        tasks
                        or hub.is_closing
                        or not await _wait_for_notice(poll, until - clock())
                        or disconnect.done()
                    ):
                        return _build_reply(tasks, held_seconds=held_seconds)
        finally:
            is_cut_off = disconnect.done() and not hub.is_closing
            disconnect.cancel()
            if is_cut_off and not hub.has_instance(poll.instance_id):
                # Its socket, if it had one, was lost while this poll still spoke for it.
                await run_in_thread(record_disconnect, poll.instance_id, clock() - heard_at)


async def _wait_for_notice(poll: LongPoll, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await poll.notice_received.wait()
    except TimeoutError:
        return False
    return True


def _open_poll(bearer: str, has_more: Callable[[int], bool]) -> tuple[int, int]:
    """Return the polling instance and its delegate. Raises the errors of `get_session_instance`."""
    instance = get_session_instance(bearer)
    if not has_more(instance.pk):
        _record_poll(instance)
    return instance.pk, instance.delegate_id


def acquire_documents(bearer: str, free: int, polls: bool = False) -> list[dict[str, Any]]:
    """Return the documents of tasks for a session. Raises the errors of `get_session_instance`."""
    instance = get_session_instance(bearer)
    _record_contact(instance, polls=polls)
    return [acquired_task.build_document() for acquired_task in leases.acquire_tasks(instance, free=free)]


def _record_contact(instance: DelegateInstance, *, polls: bool) -> None:
    """Record contact by a poll; the instance is connected even if its socket closed a moment ago.

    A poll without a wait belongs to a socket's notice, perhaps of a newer socket.
    """
    connection = DelegateInstance.Connection
    if instance.suspect_since is not None or instance.connection == connection.NONE:
        by_poll = polls or instance.connection == connection.NONE
        _set_connection(instance, connection.POLLING.value if by_poll else instance.connection)


def _record_poll(instance: DelegateInstance) -> None:
    """Record that an instance in long poll has no socket."""
    if instance.connection != DelegateInstance.Connection.POLLING:
        _set_connection(instance, DelegateInstance.Connection.POLLING.value)


def _set_connection(instance: DelegateInstance, connection: str) -> None:
    # Unless a socket was made since `instance` was read.
    unchanged = {"connection": instance.connection, "suspect_since": instance.suspect_since}
    DelegateInstance.objects.filter(pk=instance.pk, **unchanged).update(
        connection=connection, suspect_since=None, last_heartbeat_at=get_database_time()
    )
    publish_delegates_changed(instance.delegate_id)


def _build_reply(tasks: list[dict[str, Any]], *, held_seconds: float) -> AgentReply:
    # From this the agent computes the age of the response.
    return AgentReply({"tasks": tasks, "held_seconds": round(held_seconds, 3)})


HEARTBEAT_TIMEOUT_SECONDS = 10.0
_SESSION_OVER_MESSAGE = "Your session has expired. Register again."
_REFUSALS = {
    refusal.code: refusal for refusal in (SessionInvalid, TokenRevoked, DelegateRejected, ScopeArchived)
}


async def heartbeat_request(request: AgentRequest, _receive: object) -> AgentReply:
    """POST /agent/v1/heartbeat: write the heartbeat together with those of sockets."""
    instance = await run_in_thread(get_session_instance, request.bearer)
    heartbeat = parse_heartbeat(instance.pk, request.fields())
    future: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()

    def resolve(response: HeartbeatResponse) -> None:
        if not future.done():
            future.set_result(response)

    async with get_agent_broadcaster() as hub:
        hub.heartbeats.add(heartbeat, resolve)
        try:
            async with asyncio.timeout(HEARTBEAT_TIMEOUT_SECONDS):
                response = await future
        except TimeoutError as late:
            raise ServiceUnavailable("The heartbeat could not be saved. Send it again.") from late
    if isinstance(response, EndedSession):
        raise _REFUSALS[response.code](_SESSION_OVER_MESSAGE)
    return AgentReply(response)
