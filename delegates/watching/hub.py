"""What one process knows of the delegates that are watched here: read and drawn once for all viewers."""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.template.loader import render_to_string

from delegates.models import Delegate
from delegates.queries.delegates import DelegateFacts, facts_of, with_instances
from delegates.telling import GROUP
from web.listening import listen

# However often delegates change, they are read and sent this often at most.
CHANGES_EVERY_SECONDS = 0.5
# What nobody tells, such as a heartbeat that does not come, is found this soon.
LOOK_AGAIN_SECONDS = 5
# A look at every delegate of many takes longer: the next one waits this many times as long.
REST_AFTER_LOOK = 20
ROW = "delegates/parts/_delegate.html"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """A delegate as it is since change `number`; its facts are None where it is no more.

    The scope is None where nothing is known of one that is no more but its number.
    """

    number: int
    pk: int
    scope_id: int | None
    facts: DelegateFacts | None
    row: str


class Hub:
    """Listens for changes, reads the delegates that they name, and wakes its viewers.

    The channel layer is never the truth: all delegates are looked at every five seconds, or as often as
    takes a twentieth of a core.
    """

    def __init__(self) -> None:
        self.number = 0
        self.is_broken = False
        self.news = asyncio.Event()
        self.ready = asyncio.Event()
        self.viewers = 0
        self._facts: dict[int, DelegateFacts] = {}
        # The newest change of each delegate, oldest first.
        self._changes: dict[int, Change] = {}
        self._named: set[int] = set()
        self._wanted = asyncio.Event()
        self._joined = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to listen."""
        hearing = listen(GROUP, about="Delegates", ready=self._begin, take=self._take)
        self._jobs = [asyncio.create_task(job) for job in (hearing, self._keep())]
        for job in self._jobs:
            job.add_done_callback(self._job_ended)

    def stop(self) -> None:
        """Stop listening."""
        for job in self._jobs:
            job.cancel()

    def after(self, number: int) -> list[Change]:
        """What changed after a change that a viewer knows, oldest first."""
        return list(self._newest_first(number))[::-1]

    def _newest_first(self, number: int) -> Iterator[Change]:
        for change in reversed(self._changes.values()):
            if change.number <= number:
                return
            yield change

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """A job that broke lets the viewers go: they come back to a new hub, and would else wait for ever."""
        if job.cancelled():
            return
        logger.error("Watching delegates broke off", exc_info=job.exception())
        self.is_broken = True
        self.ready.set()
        self._wake()

    async def _begin(self) -> None:
        self._joined.set()

    async def _take(self, message: dict[str, Any]) -> None:
        self._named.update(message["ids"])
        self._wanted.set()

    async def _keep(self) -> None:
        """Read everything first; then what is named, and everything again now and then."""
        loop = asyncio.get_running_loop()
        await self._joined.wait()
        self._facts = {one.pk: one for one in await self._read(None)}
        self.ready.set()
        look_at = loop.time() + LOOK_AGAIN_SECONDS
        while True:
            await asyncio.sleep(CHANGES_EVERY_SECONDS)
            try:
                await asyncio.wait_for(self._wanted.wait(), max(0.01, look_at - loop.time()))
            except TimeoutError:
                begun = loop.time()
                await self._compare(None)
                took = loop.time() - begun
                look_at = loop.time() + max(LOOK_AGAIN_SECONDS, REST_AFTER_LOOK * took)
            else:
                await self._compare(self._take_named())

    def _take_named(self) -> set[int]:
        self._wanted.clear()
        named, self._named = self._named, set()
        return named

    async def _compare(self, named: set[int] | None) -> None:
        """Note what differs from what was known; `None` looks at every delegate."""
        found = {one.pk: one for one in await self._read(named)}
        asked = set(self._facts) if named is None else named
        changed = [one for pk, one in found.items() if self._facts.get(pk) != one]
        gone = asked - found.keys()
        rows = await self._drawn(changed)
        for one in changed:
            self._facts[one.pk] = one
            self._note(one.pk, one.scope_id, one, rows[one.pk])
        for pk in gone:
            # One that came and went between two reads is not known here, but a page may have seen it.
            known = self._facts.pop(pk, None)
            self._note(pk, known.scope_id if known else None, None, "")
        if changed or gone:
            self._wake()

    def _note(self, pk: int, scope_id: int | None, facts: DelegateFacts | None, row: str) -> None:
        self.number += 1
        self._changes.pop(pk, None)
        self._changes[pk] = Change(self.number, pk, scope_id, facts, row)

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    @database_sync_to_async
    def _read(self, named: Iterable[int] | None) -> list[DelegateFacts]:
        delegates = Delegate.objects.all() if named is None else Delegate.objects.filter(pk__in=list(named))
        return facts_of(with_instances(delegates))

    @database_sync_to_async
    def _drawn(self, changed: list[DelegateFacts]) -> dict[int, str]:
        return {one.pk: render_to_string(ROW, {"delegate": one}) for one in changed}


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


@asynccontextmanager
async def shared_hub() -> AsyncIterator[Hub]:
    """The hub of this process for as long as somebody watches; the last viewer ends it."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None or found.is_broken:
        found = _hubs[loop] = Hub()
        found.start()
    found.viewers += 1
    try:
        await found.ready.wait()
        yield found
    finally:
        found.viewers -= 1
        if found.viewers == 0:
            found.stop()
            if _hubs.get(loop) is found:
                del _hubs[loop]
