"""Acquire as agents ask for it: at once, or as a long poll that holds no thread while it waits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from delegates.models import DelegateInstance
from delegates.protocol import acquiring
from delegates.protocol.hub import hub_here
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.protocol.sockets import disconnected
from delegates.protocol.terms import LONGEST_WAIT_SECONDS
from delegates.protocol.threads import in_thread
from delegates.telling import tell
from guards.limits import AGENT_TASKS
from web.clock import database_now

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

# Polls that began together, after a restart, do not all end together.
_SPREAD, _PARTS = 0.25, 64


class Poll:
    """An instance that waits for a task."""

    def __init__(self, instance_id: int, delegate_id: int) -> None:
        self.instance_id = instance_id
        self.delegate_id = delegate_id
        self.news = asyncio.Event()

    def tell(self, _text: str) -> None:
        """Look again."""
        self.news.set()

    def end(self, _reason: str) -> None:
        """Look again, and be refused."""
        self.news.set()


async def acquire(request: AgentRequest, receive: Receive) -> Reply:
    """POST /agent/v1/tasks/acquire: tasks, or none when `wait_seconds` are over."""
    fields = request.fields()
    free = fields.whole("free", 0, AGENT_TASKS, default=1)
    seconds = min(fields.measured("wait_seconds"), LONGEST_WAIT_SECONDS)
    if seconds == 0:
        return _reply(await in_thread(take, request.bearer, free), held=0.0)
    return await _wait(request, receive, free=free, seconds=seconds)


async def _wait(request: AgentRequest, receive: Receive, *, free: int, seconds: float) -> Reply:
    clock = asyncio.get_running_loop().time
    began = clock()
    until = began + seconds
    async with hub_here() as hub:
        poll = Poll(*await in_thread(_begin, request.bearer, hub.has))
        until -= seconds * _SPREAD * (poll.instance_id % _PARTS) / _PARTS
        gone = asyncio.ensure_future(receive())
        gone.add_done_callback(lambda _: poll.news.set())
        try:
            with hub.having(poll):
                while True:
                    poll.news.clear()
                    held = clock() - began
                    tasks = await in_thread(take, request.bearer, free, True)
                    if tasks or hub.is_closing or not await _news(poll, until - clock()) or gone.done():
                        return _reply(tasks, held=held)
        finally:
            is_cut_off = gone.done() and not hub.is_closing
            gone.cancel()
            if is_cut_off and not hub.has(poll.instance_id):
                # Its socket, if it had one, was lost while this poll still spoke for it.
                await in_thread(disconnected, poll.instance_id)


async def _news(poll: Poll, seconds: float) -> bool:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await poll.news.wait()
    except TimeoutError:
        return False
    return True


def _begin(bearer: str, has_more: Callable[[int], bool]) -> tuple[int, int]:
    """The instance that polls, and its delegate. Raises what `instance_of` raises."""
    instance = instance_of(bearer)
    if not has_more(instance.pk):
        _polls(instance)
    return instance.pk, instance.delegate_id


def take(bearer: str, free: int, polls: bool = False) -> list[dict[str, Any]]:
    """The documents of tasks for who shows this session. Raises what `instance_of` raises."""
    instance = instance_of(bearer)
    _heard(instance, polls=polls)
    return [one.document() for one in acquiring.take(instance, free=free)]


def _heard(instance: DelegateInstance, *, polls: bool) -> None:
    """Who asks is there, also when its socket closed a moment ago.

    Only who waits polls: who wants its answer at once was told by a socket, maybe a newer one than that.
    """
    connection = DelegateInstance.Connection
    if instance.suspect_since is not None or instance.connection == connection.NONE:
        by_poll = polls or instance.connection == connection.NONE
        _note(instance, connection.POLLING.value if by_poll else instance.connection)


def _polls(instance: DelegateInstance) -> None:
    """Who waits by long poll has no socket, whatever was known of it."""
    if instance.connection != DelegateInstance.Connection.POLLING:
        _note(instance, DelegateInstance.Connection.POLLING.value)


def _note(instance: DelegateInstance, connection: str) -> None:
    # Unless a socket was made since `instance` was read.
    unchanged = {"connection": instance.connection, "suspect_since": instance.suspect_since}
    DelegateInstance.objects.filter(pk=instance.pk, **unchanged).update(
        connection=connection, suspect_since=None, last_heartbeat_at=database_now()
    )
    tell(instance.delegate_id)


def _reply(tasks: list[dict[str, Any]], *, held: float) -> Reply:
    # By this the agent knows how old the answer is, however long it lay on the way.
    return Reply({"tasks": tasks, "held_seconds": round(held, 3)})
