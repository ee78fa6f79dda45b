"""WebSocket consumer of the delegate list, and the broadcaster its viewers share."""

import asyncio
import contextlib
import json
import logging
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from channels.db import database_sync_to_async
from django.template.loader import render_to_string

from delegates.live import DELEGATES_GROUP
from delegates.models import Delegate
from delegates.queries.delegates import VIEW, DelegateFacts, list_delegate_facts, prefetch_instances
from rbac.models import User
from rbac.policy import Grants
from web.live.consumers import CLOSE_FORBIDDEN, LiveConsumer
from web.live.socket_authorization import CLOSE_INTERNAL_ERROR
from web.live.subscriptions import subscribe

# However often delegates change, they are read and sent this often at most.
CHANGE_INTERVAL_SECONDS = 0.5
# Interval for changes without an event, such as a missing heartbeat.
SCAN_INTERVAL_SECONDS = 5
# With many delegates a full read takes longer: the next one waits this multiple of its duration.
SCAN_REST_FACTOR = 20
ROW_TEMPLATE = "delegates/parts/_delegate.html"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DelegateRowChange:
    """State of a delegate since change `number`; deleted delegates have no facts.

    The scope is None if only the number of a deleted delegate is known.
    """

    number: int
    pk: int
    scope_id: int | None
    facts: DelegateFacts | None
    row: str


class DelegateBroadcaster:
    """Listener for changes that reads the changed delegates and wakes its viewers.

    The channel layer may lose messages. So all delegates are read every five seconds, or less often to stay
    below 5% CPU.
    """

    def __init__(self) -> None:
        self.number = 0
        self.is_broken = False
        self.news = asyncio.Event()
        self.ready = asyncio.Event()
        self.viewers = 0
        self._facts: dict[int, DelegateFacts] = {}
        # The newest change of each delegate, oldest first.
        self._changes: dict[int, DelegateRowChange] = {}
        self._named: set[int] = set()
        self._wanted = asyncio.Event()
        self._joined = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to listen."""
        hearing = subscribe(DELEGATES_GROUP, about="Delegates", ready=self._begin, take=self._take)
        self._jobs = [asyncio.create_task(job) for job in (hearing, self._keep())]
        for job in self._jobs:
            job.add_done_callback(self._job_ended)

    def stop(self) -> None:
        """Stop listening."""
        for job in self._jobs:
            job.cancel()

    def after(self, number: int) -> list[DelegateRowChange]:
        """Return the changes after a change that a viewer knows, oldest first."""
        return list(self._newest_first(number))[::-1]

    def _newest_first(self, number: int) -> Iterator[DelegateRowChange]:
        for change in reversed(self._changes.values()):
            if change.number <= number:
                return
            yield change

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """End all viewers after a crashed job; they reconnect to a new broadcaster instead of hanging."""
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
        """Read all delegates, then the changed ones, and all again at intervals."""
        loop = asyncio.get_running_loop()
        await self._joined.wait()
        self._facts = {one.pk: one for one in await self._read(None)}
        self.ready.set()
        due_at = loop.time() + SCAN_INTERVAL_SECONDS
        while True:
            await asyncio.sleep(CHANGE_INTERVAL_SECONDS)
            try:
                await asyncio.wait_for(self._wanted.wait(), max(0.01, due_at - loop.time()))
            except TimeoutError:
                begun = loop.time()
                await self._compare(None)
                took = loop.time() - begun
                due_at = loop.time() + max(SCAN_INTERVAL_SECONDS, SCAN_REST_FACTOR * took)
            else:
                await self._compare(self._take_named())

    def _take_named(self) -> set[int]:
        self._wanted.clear()
        named, self._named = self._named, set()
        return named

    async def _compare(self, named: set[int] | None) -> None:
        """Record differences from the known rows; `None` compares every delegate."""
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
        self._changes[pk] = DelegateRowChange(self.number, pk, scope_id, facts, row)

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    @database_sync_to_async
    def _read(self, named: Iterable[int] | None) -> list[DelegateFacts]:
        delegates = Delegate.objects.all() if named is None else Delegate.objects.filter(pk__in=list(named))
        return list_delegate_facts(prefetch_instances(delegates))

    @database_sync_to_async
    def _drawn(self, changed: list[DelegateFacts]) -> dict[int, str]:
        return {one.pk: render_to_string(ROW_TEMPLATE, {"delegate": one}) for one in changed}


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, DelegateBroadcaster] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def get_delegate_broadcaster() -> AsyncIterator[DelegateBroadcaster]:
    """Yield this process's broadcaster to a viewer; the last viewer ends it."""
    loop = asyncio.get_running_loop()
    found = _broadcasters.get(loop)
    if found is None or found.is_broken:
        found = _broadcasters[loop] = DelegateBroadcaster()
        found.start()
    found.viewers += 1
    try:
        await found.ready.wait()
        yield found
    finally:
        found.viewers -= 1
        if found.viewers == 0:
            found.stop()
            if _broadcasters.get(loop) is found:
                del _broadcasters[loop]


ACCESS_CHECK_SECONDS = 10


class DelegatesConsumer(LiveConsumer):
    """Socket of one user's delegate list; it stores only the number of the last sent change."""

    content_name = "delegates"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scopes: frozenset[int] = frozenset()

    @classmethod
    def get_close_codes(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse users without a scope, and record the scopes whose delegates the user may view."""
        grants = Grants(person for _, person in asked)
        for one, person in asked:
            one.scopes = grants.get_permitted_scope_ids(person, VIEW)
        return [None if one.scopes else CLOSE_FORBIDDEN for one, _ in asked]

    async def stream(self) -> None:
        async with get_delegate_broadcaster() as heard:
            sent = heard.number
            await self.send(text_data='{"type":"watching"}')
            while not heard.is_broken:
                news = heard.news
                sent = await self._send_after(heard, sent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), ACCESS_CHECK_SECONDS)
            await self.close(code=CLOSE_INTERNAL_ERROR)

    async def _send_after(self, heard: DelegateBroadcaster, sent: int) -> int:
        changes = heard.after(sent)
        shown = [
            _serialize_change(change)
            for change in changes
            if change.scope_id is None or change.scope_id in self.scopes
        ]
        if shown:
            await self.send(text_data=json.dumps({"type": "delegates", "changed": shown}))
        return changes[-1].number if changes else sent


def _serialize_change(change: DelegateRowChange) -> dict[str, Any]:
    """Return a change as the page takes it; `row` is markup, escaped by its template."""
    facts = change.facts
    if facts is None:
        return {"id": change.pk, "status": None}
    return {
        "id": change.pk,
        "name": facts.name,
        "scope": facts.scope,
        "status": facts.status,
        "row": change.row,
    }
