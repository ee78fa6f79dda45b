"""The agents' WebSocket: notices go out, heartbeats come in, and nothing of a task's content (R015)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from delegates.models import DelegateEvent, DelegateInstance
from delegates.notifying import tell_back
from delegates.protocol.fields import Fields, read_object
from delegates.protocol.happenings import called, note
from delegates.protocol.heartbeats import Answer, Ended, read_beat
from delegates.protocol.hub import Hub, hub_here
from delegates.protocol.sessions import instance_of
from delegates.protocol.threads import in_thread
from delegates.telling import tell
from web.clock import database_now
from web.outages import OUTAGES, is_outage
from web.problems import BadInput, Problem

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

UNAUTHENTICATED = 4401
BAD_MESSAGE = 4400
TRY_AGAIN = 1013
# An agent that does not read what it is told is let go; it comes back and looks.
MOST_UNREAD = 100


class AgentSocket:
    """One socket of one instance."""

    __slots__ = ("_send", "_unread", "delegate_id", "hub", "instance_id", "is_over")

    def __init__(self, instance_id: int, delegate_id: int, hub: Hub, send: Send) -> None:
        self.instance_id = instance_id
        self.delegate_id = delegate_id
        self.hub = hub
        # Closed by us: nothing that its end could tell.
        self.is_over = False
        self._send = send
        self._unread = 0

    def tell(self, text: str) -> None:
        """Send a notice as soon as the line takes it."""
        if not text or self.is_over:
            return
        if self._unread >= MOST_UNREAD:
            self._close(TRY_AGAIN, "unread")
            return
        self._unread += 1
        _keep(asyncio.ensure_future(self._pass_on(text)))

    def end(self, reason: str) -> None:
        """Close, for the session is over."""
        self._close(UNAUTHENTICATED, reason)

    def _close(self, code: int, reason: str) -> None:
        if not self.is_over:
            self.is_over = True
            _keep(asyncio.ensure_future(self._say_goodbye(code, reason)))

    async def _say_goodbye(self, code: int, reason: str) -> None:
        await _quietly(self._send, {"type": "websocket.close", "code": code, "reason": reason})

    async def _pass_on(self, text: str) -> None:
        await _quietly(self._send, {"type": "websocket.send", "text": text})
        self._unread -= 1

    async def hear(self, receive: Receive) -> None:
        """Take what the agent says until the socket closes."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            if not self.is_over:
                self._take(message.get("text") or "")

    def _take(self, text: str) -> None:
        try:
            fields = Fields(read_object(text))
            if fields.body.get("type") == "heartbeat":
                self.hub.heartbeats.add(read_beat(self.instance_id, fields), self._answer)
        except BadInput as problem:
            self._close(BAD_MESSAGE, problem.detail[:100])

    def _answer(self, answer: Answer) -> None:
        if isinstance(answer, Ended):
            self.end(answer.code)
        else:
            self.tell(json.dumps({"type": "heartbeat_ack", **answer}))


async def serve(bearer: str, receive: Receive, send: Send) -> None:
    """One socket from its handshake to its end; while it is idle it holds no row and no headers."""
    await receive()
    try:
        instance_id, delegate_id = await in_thread(connected, bearer)
    except Problem as problem:
        await _refuse(send, UNAUTHENTICATED, problem.code)
        return
    except OUTAGES as error:
        if not is_outage(error):
            raise
        await _refuse(send, TRY_AGAIN, "not_available")
        return
    async with hub_here() as hub:
        socket = AgentSocket(instance_id, delegate_id, hub, send)
        try:
            with hub.having(socket):
                await send({"type": "websocket.accept"})
                await socket.hear(receive)
        finally:
            # Whether this process ends is not for an agent's close code to say.
            if not (socket.is_over or hub.is_closing or hub.has(instance_id)):
                # A heartbeat written after this would say that it is there.
                await hub.heartbeats.forget(instance_id)
                await in_thread(disconnected, instance_id)


async def _refuse(send: Send, code: int, reason: str) -> None:
    # Opened first: before that there is only a status, and agents read the code.
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code, "reason": reason})


def connected(bearer: str) -> tuple[int, int]:
    """Note that an instance has a socket; its id and its delegate's. Raises what `instance_of` raises."""
    instance = instance_of(bearer)
    now = database_now()
    was = (instance.connection, instance.suspect_since)
    DelegateInstance.objects.filter(pk=instance.pk).update(
        connection=DelegateInstance.Connection.WEBSOCKET, suspect_since=None, last_heartbeat_at=now
    )
    tell_back([instance.delegate_id])
    if was != (DelegateInstance.Connection.WEBSOCKET, None):
        text = f"{called(instance)} is connected by WebSocket."
        note(instance, DelegateEvent.Kind.CONNECTED, text, at=now)
        tell(instance.delegate_id)
    return instance.pk, instance.delegate_id


def disconnected(instance_id: int) -> None:
    """Note that the socket of an instance closed: no new tasks until it is heard again."""
    now = database_now()
    alive = DelegateInstance.objects.filter(
        pk=instance_id, suspect_since=None, connection=DelegateInstance.Connection.WEBSOCKET
    ).exclude(status=DelegateInstance.Status.GONE)
    if not alive.update(suspect_since=now):
        return
    instance = DelegateInstance.objects.select_related("delegate").get(pk=instance_id)
    text = f"The WebSocket of {called(instance)} closed; it gets no tasks until it is heard again."
    note(instance, DelegateEvent.Kind.SUSPECT, text, at=now)
    tell(instance.delegate_id)


_running: set["asyncio.Future[None]"] = set()


def _keep(job: "asyncio.Future[None]") -> None:
    """The loop alone would let a job go in the middle of it."""
    _running.add(job)
    job.add_done_callback(_running.discard)


async def _quietly(send: Send, message: dict[str, Any]) -> None:
    """A peer that is gone already is heard of by `receive`."""
    try:
        await send(message)
    except (OSError, RuntimeError):
        return
