"""Counts of the navigation badges, computed once for all viewers of a process."""

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from channels.db import database_sync_to_async
from django.db import transaction

from deployments.approvals.live import APPROVALS_GROUP
from deployments.approvals.queries import count_waiting_approvals
from rbac.models import User
from web.live.publisher import publish
from web.live.subscriptions import subscribe

# Counts for all of these people at once, in as many queries as for one; none has come with an API key.
BadgeCounter = Callable[[Sequence[User]], Counter[int]]
WAITING_BADGE: Final = "waiting"
_counts: Final[dict[str, BadgeCounter]] = {WAITING_BADGE: count_waiting_approvals}


def register_badge(name: str, count: BadgeCounter) -> None:
    """Have a badge of this name counted and told with the others."""
    _counts[name] = count


def publish_badges_changed() -> None:
    """After the commit under way, have all badges counted again."""
    transaction.on_commit(lambda: publish(APPROVALS_GROUP, {"type": "badges.changed"}))


def count_badges(people: Sequence[User]) -> dict[int, Mapping[str, int]]:
    """The numbers of all badges of each of these, by the key of the person."""
    counted = {name: count(people) for name, count in _counts.items()}
    return {one.pk: {name: found[one.pk] for name, found in counted.items()} for one in people}


# However often approvals change, they are counted this often at most.
COUNT_INTERVAL_SECONDS = 0.3
logger = logging.getLogger(__name__)


class BadgeViewer(Protocol):
    """Somebody whose badges are counted."""

    person: User | None
    badges: Mapping[str, int]


class BadgeBroadcaster:
    """Listens for changes of what badges count, counts for all viewers together, and wakes them.

    What the channel layer loses is found with the next look at who may see what.
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.news = asyncio.Event()
        self.viewers: set[BadgeViewer] = set()
        self._wanted = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to listen."""
        hearing = subscribe(APPROVALS_GROUP, about="Approvals", ready=self._want, take=self._take)
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
            await asyncio.sleep(COUNT_INTERVAL_SECONDS)

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    @database_sync_to_async
    def _count(self, people: list[User]) -> dict[int, Mapping[str, int]]:
        return count_badges(people)


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, BadgeBroadcaster] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def get_badge_broadcaster(viewer: BadgeViewer) -> AsyncIterator[BadgeBroadcaster]:
    """The hub of this process, which counts for this viewer too; the last viewer ends it."""
    loop = asyncio.get_running_loop()
    found = _broadcasters.get(loop)
    if found is None or found.is_broken:
        found = _broadcasters[loop] = BadgeBroadcaster()
        found.start()
    found.viewers.add(viewer)
    try:
        yield found
    finally:
        found.viewers.discard(viewer)
        if not found.viewers:
            found.stop()
            if _broadcasters.get(loop) is found:
                del _broadcasters[loop]
