"""What one process knows of the badges of its viewers, such as approvals: counted once for all of them."""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from channels.db import database_sync_to_async

from deployments.approval_news import GROUP
from deployments.watching.badges import badges_of
from rbac.models import User
from web.listening import listen

# However often approvals change, they are counted this often at most.
COUNT_EVERY_SECONDS = 0.3
logger = logging.getLogger(__name__)


class Viewer(Protocol):
    """Somebody whose badges are counted."""

    person: User | None
    badges: Mapping[str, int]


class WaitingHub:
    """Listens for changes of what badges count, counts for all viewers together, and wakes them.

    What the channel layer loses is found with the next look at who may see what.
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.news = asyncio.Event()
        self.viewers: set[Viewer] = set()
        self._wanted = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to listen."""
        hearing = listen(GROUP, about="Approvals", ready=self._want, take=self._take)
        self._jobs = [asyncio.create_task(job) for job in (hearing, self._keep())]
        for job in self._jobs:
            job.add_done_callback(self._job_ended)

    def stop(self) -> None:
        """Stop listening."""
        for job in self._jobs:
            job.cancel()

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """A job that broke lets the viewers go: they come back to a new hub, and would else wait for ever."""
        if job.cancelled():
            return
        logger.error("Watching approvals broke off", exc_info=job.exception())
        self.is_broken = True
        self._wake()

    async def _want(self) -> None:
        self._wanted.set()

    async def _take(self, _: dict[str, Any]) -> None:
        self._wanted.set()

    async def _keep(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            viewers = [one for one in self.viewers if one.person is not None]
            counts = await self._count([one.person for one in viewers if one.person is not None])
            for one in viewers:
                one.badges = counts.get(one.person.pk, {}) if one.person is not None else {}
            self._wake()
            await asyncio.sleep(COUNT_EVERY_SECONDS)

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    @database_sync_to_async
    def _count(self, people: list[User]) -> dict[int, Mapping[str, int]]:
        return badges_of(people)


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, WaitingHub] = weakref.WeakKeyDictionary()


@asynccontextmanager
async def waiting_hub(viewer: Viewer) -> AsyncIterator[WaitingHub]:
    """The hub of this process, which counts for this viewer too; the last viewer ends it."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None or found.is_broken:
        found = _hubs[loop] = WaitingHub()
        found.start()
    found.viewers.add(viewer)
    try:
        yield found
    finally:
        found.viewers.discard(viewer)
        if not found.viewers:
            found.stop()
            if _hubs.get(loop) is found:
                del _hubs[loop]
