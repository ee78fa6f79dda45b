"""The base of the sockets of pages: one stays open only while its person may see what it shows."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import ClassVar, Self

from channels.generic.websocket import AsyncWebsocketConsumer

from rbac.models import User
from web.access_news import BROKEN, Attention, attention
from web.sockets import session_key_of

FORBIDDEN = 4403
logger = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):
    """One watcher: who it is and whether that may be is asked for all watchers of a process together.

    From a change of access until the answer nothing is sent: with many watchers that can take a moment.
    """

    # Hubs listen for all; a channel for each viewer would be one more queue to grow.
    channel_layer_alias = "none"
    shows: ClassVar[str] = ""

    @classmethod
    def refusals(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """The codes to close these with, or None; what each person may do is noted.

        Asks the database as often for many as for one.
        """
        raise NotImplementedError

    async def follow(self) -> None:
        """Send what there is to see, until there is nothing more."""
        raise NotImplementedError

    async def connect(self) -> None:
        self._access: Attention | None = None
        self._guard: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        await self.accept()
        self._guard = self._begin(self._heed_access())

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
        await self.settled()
        await super().send(text_data=text_data, bytes_data=bytes_data, close=close)

    async def settled(self) -> None:
        """Wait until it is sure what the person may see."""
        if self._access is not None:
            await self._access.settled.wait()

    async def _heed_access(self) -> None:
        async with attention(self, session_key_of(self.scope)) as mine:
            self._access = mine
            self._following = self._begin(self._follow_once_allowed(mine))
            code = await mine.end
        self._following.cancel()
        await self.close(code=code)

    async def _follow_once_allowed(self, mine: Attention) -> None:
        await mine.settled.wait()
        await self.follow()

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
