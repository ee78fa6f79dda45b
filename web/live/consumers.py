"""WebSocket consumers: the base of all, and the one that reports changed topics."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Final, Self
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer

from guards.limits import SOCKET_TOPICS
from rbac.models import User
from rbac.policy import Grants
from web.live.broadcaster import Broadcaster, watch_sources
from web.live.socket_authorization import CLOSE_INTERNAL_ERROR, SocketSession, authorize_socket
from web.live.socket_middleware import get_session_key
from web.live.sources import TopicSource, get_audiences, get_topic_source

CLOSE_FORBIDDEN = 4403
logger = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):
    """Socket of one viewer; all sockets of a process are authorized together.

    After a change of access, nothing is sent until the check has finished. With many viewers that takes a
    moment.
    """

    # Hubs listen for all; a channel for each viewer would be one more queue to grow.
    channel_layer_alias = "none"
    content_name: ClassVar[str] = ""

    @classmethod
    def get_close_codes(cls, sockets: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Return the close codes of these sockets, or None, and store each user's permissions.

        The number of queries is constant.
        """
        raise NotImplementedError

    async def stream(self) -> None:
        """Send updates until the stream ends."""
        raise NotImplementedError

    async def connect(self) -> None:
        self._access: SocketSession | None = None
        self._access_task: asyncio.Task[None] | None = None
        self._stream_task: asyncio.Task[None] | None = None
        await self.accept()
        self._access_task = self._start_task(self._watch_access())

    async def disconnect(self, code: int) -> None:
        for job in (getattr(self, "_access_task", None), getattr(self, "_stream_task", None)):
            if job is not None:
                job.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore messages from the page."""

    async def send(
        self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False
    ) -> None:
        """Send a message once the viewer is authorized."""
        await self.wait_until_authorized()
        await super().send(text_data=text_data, bytes_data=bytes_data, close=close)

    async def wait_until_authorized(self) -> None:
        """Wait until the viewer is authorized."""
        if self._access is not None:
            await self._access.authorized.wait()

    async def _watch_access(self) -> None:
        async with authorize_socket(self, get_session_key(self.scope)) as session:
            self._access = session
            self._stream_task = self._start_task(self._stream_once_authorized(session))
            code = await session.close_code
        self._stream_task.cancel()
        await self.close(code=code)

    async def _stream_once_authorized(self, session: SocketSession) -> None:
        await session.authorized.wait()
        await self.stream()

    def _start_task(self, job: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(job)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, job: asyncio.Task[None]) -> None:
        """Ignore a disconnect during a message, and log any other error."""
        error = None if job.cancelled() else job.exception()
        if error is None or isinstance(error, OSError):
            return
        logger.error("Closed the socket of a viewer of %s", self.content_name, exc_info=error)
        self._stream_task = asyncio.create_task(self.close(code=CLOSE_INTERNAL_ERROR))


# Interval of messages that confirm the connection, which browsers do not report.
KEEPALIVE_SECONDS: Final = 30
MOST_TOPIC_CHARACTERS: Final = 128
# A page without an age is fetched again.
UNKNOWN_AGE_SECONDS: Final = 10.0**9


class TopicConsumer(LiveConsumer):
    """Socket of one page. It reports only the topics of changes; the page is rendered for its reader."""

    content_name = "live topics"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.topics: frozenset[str] = frozenset()
        self.age = UNKNOWN_AGE_SECONDS
        self.user: User | None = None
        self.grants: Grants | None = None
        self.allowed_topics: frozenset[str] = frozenset()

    async def connect(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        self.topics = frozenset(
            topic for topic in query.get("topic", [])[:SOCKET_TOPICS] if len(topic) <= MOST_TOPIC_CHARACTERS
        )
        self.age = _parse_age(query.get("age", [""])[0])
        await super().connect()

    @classmethod
    def get_close_codes(cls, sockets: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Return a close code for each socket without a permitted topic; set user and topics."""
        audiences = get_audiences({topic for socket, _ in sockets for topic in socket.topics})
        grants = Grants(user for _, user in sockets)
        for socket, user in sockets:
            socket.user, socket.grants = user, grants
            socket.allowed_topics = frozenset(
                topic
                for topic in socket.topics
                if topic in audiences and audiences[topic].includes(user, grants)
            )
        return [None if socket.allowed_topics else CLOSE_FORBIDDEN for socket, _ in sockets]

    async def stream(self) -> None:
        sources, topics = self._list_sources(), self.allowed_topics
        read_at = asyncio.get_running_loop().time() - self.age
        async with watch_sources(sources, topics) as hub:
            position = None if hub.is_broken else hub.position_at(read_at, sources)
            await self._send_message("watching", stale=position is None)
            sent = hub.number if position is None else position
            while not hub.is_broken:
                change_event = hub.change_event
                sent = await self._send_changes_after(hub, sent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(change_event.wait(), KEEPALIVE_SECONDS)
                    continue
                await self._send_message("still")
            await self.close(code=CLOSE_INTERNAL_ERROR)

    def _list_sources(self) -> list[TopicSource]:
        sources = {
            source.name: source for topic in self.topics if (source := get_topic_source(topic)) is not None
        }
        return list(sources.values())

    async def _send_changes_after(self, hub: Broadcaster, sent: int) -> int:
        changes = hub.list_changes_after(sent)
        if changes is None:
            await self._send_message("changed", topics=sorted(self.allowed_topics))
            return hub.number
        if not changes:
            return sent
        # Checked before anything is dropped: access may have been reduced meanwhile.
        await self.wait_until_authorized()
        person, grants = self.user, self.grants
        if person is not None and grants is not None:
            topics = {
                topic
                for change in changes
                if not self.allowed_topics.isdisjoint(change.topics)
                and change.audience.includes(person, grants)
                for topic in change.topics & self.allowed_topics
            }
            if topics:
                await self._send_message("changed", topics=sorted(topics))
        return changes[0].number

    async def _send_message(self, message_type: str, **more: Any) -> None:
        await self.send(text_data=json.dumps({"type": message_type, **more}))


def _parse_age(text: str) -> float:
    """Return the age of a page in seconds, with a margin for the transfer."""
    return int(text) + 1.0 if text.isascii() and text.isdigit() and len(text) < 9 else UNKNOWN_AGE_SECONDS
