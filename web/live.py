"""The base of the sockets of pages: one stays open only while its person may see what it shows."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import ClassVar

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from rbac.changes import mark_of
from rbac.models import User
from web.access_news import Attention, attention
from web.sockets import person_of, session_key_of

NOT_SIGNED_IN = 4401
FORBIDDEN = 4403
BROKEN = 1011
# Changes of access are told at once; a role that expires, and what got lost, is found this soon.
LOOK_AGAIN_SECONDS = 10
logger = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):
    """One watcher: asks who it is and whether that may be, first and after each change of access.

    From a change until the answer nothing is sent: with many watchers that can take a moment.
    """

    # Hubs listen for all; a channel for each viewer would be one more queue to grow.
    channel_layer_alias = "none"
    shows: ClassVar[str] = ""

    def refusal(self, person: User) -> int | None:
        """The code to close with, or None; what the person may do is noted. Asks the database."""
        raise NotImplementedError

    async def follow(self) -> None:
        """Send what there is to see, until there is nothing more."""
        raise NotImplementedError

    async def connect(self) -> None:
        self._key = session_key_of(self.scope)
        self._access: Attention | None = None
        self._guard: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        await self.accept()
        self._guard = self._begin(self._keep_checking())

    async def disconnect(self, code: int) -> None:
        for job in (getattr(self, "_guard", None), getattr(self, "_following", None)):
            if job is not None:
                job.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """The page has nothing to say."""

    async def send(
        self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False
    ) -> None:
        """Send once it is sure that the person may see it."""
        if self._access is not None:
            await self._access.settled.wait()
        await super().send(text_data=text_data, bytes_data=bytes_data, close=close)

    async def _keep_checking(self) -> None:
        async with attention() as mine:
            self._access = mine
            mine.session = mark_of(self._key)
            while (code := await self._check(mine)) is None:
                mine.settle()
                if self._following is None:
                    self._following = self._begin(self.follow())
                await mine.news(LOOK_AGAIN_SECONDS)
        if self._following is not None:
            self._following.cancel()
        await self.close(code=code)

    @database_sync_to_async
    def _check(self, mine: Attention) -> int | None:
        person = person_of(self._key)
        if person is None:
            return NOT_SIGNED_IN
        mine.person = person.pk
        return self.refusal(person)

    def _begin(self, job: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(job)
        task.add_done_callback(self._job_ended)
        return task

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """A viewer who leaves in the middle of a message is no trouble; whatever else broke is said."""
        error = None if job.cancelled() else job.exception()
        if error is None or isinstance(error, OSError):
            return
        logger.error("A viewer of %s was let go", self.shows, exc_info=error)
        self._following = asyncio.create_task(self.close(code=BROKEN))
