"""Broadcaster of changed topics: reads each source once for all viewers of a process."""

import asyncio
import contextlib
import logging
import weakref
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from channels.db import database_sync_to_async

from rbac.policy import get_scope_lineages
from web.live.publisher import CHANGES_GROUP
from web.live.sources import Audience, SnapshotsByKey, TopicSnapshot, TopicSource
from web.live.subscriptions import subscribe

# Maximum frequency of reads and messages.
BROADCAST_INTERVAL_SECONDS: Final = 1
# With many objects a full read takes longer: the next one waits this multiple of its duration.
REST_FACTOR: Final = 20
LONGEST_REST_SECONDS: Final = 5
# During an outage of the channel layer, and just after, changes are polled at this interval.
DISCONNECTED_POLL_SECONDS: Final = 5
MOST_CHANGES: Final = 2000
# A viewer who opens the next page soon finds the state cached: a recent page is not fetched again.
LINGER_SECONDS: Final = 30
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TopicChange:
    """Change of an object, with its topics and its audience."""

    number: int
    at: float
    audience: Audience
    topics: frozenset[str]


class _WatchedSource:
    """Source with its last known snapshots."""

    def __init__(self, subject: TopicSource) -> None:
        self.subject = subject
        self.snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
        # How many viewers name each key.
        self.viewed_keys: Counter[str] = Counter()
        self.changed_keys: set[str] = set()
        self.is_known = asyncio.Event()
        # Start of complete observation, and time of the next full read.
        self.since = 0.0
        self.looked_at = 0.0
        self.due_at = 0.0
        # When the last viewer left.
        self.left_at = 0.0

    def keys_to_read(self) -> Collection[str] | None:
        """Return the keys of a full read; None for all open objects."""
        if not self.subject.reads_watched_keys:
            return None
        for key in self.snapshots.keys() - self.viewed_keys.keys():
            del self.snapshots[key]
        return frozenset(self.viewed_keys)

    def update(
        self, found: SnapshotsByKey, asked: Collection[str], *, with_age: bool
    ) -> Iterator[TopicSnapshot]:
        """Store the new snapshots, and yield the changed ones."""
        for key, look in found.items():
            before = {one.location: one for one in self.snapshots.get(key, ())}
            kept = []
            for one in look:
                was = before.pop(one.location, None)
                is_same = was is not None and was.state == one.state
                if was is not None and is_same and not (with_age and was.age != one.age):
                    # Unreported changes of age are not counted.
                    kept.append(replace(one, age=was.age))
                    continue
                kept.append(one)
                yield one
            self.snapshots[key] = tuple(kept)
            yield from before.values()
        for key in set(asked) - found.keys():
            yield from self.snapshots.pop(key, ())


class Broadcaster:
    """Listener for all watched sources that reads changed objects and wakes the viewers.

    The channel layer may lose messages. So all open objects are read each minute, once for all viewers.
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.change_event = asyncio.Event()
        self.number = 0
        self.viewers: Counter[str] = Counter()
        self._watched: dict[str, _WatchedSource] = {}
        self._changes: deque[TopicChange] = deque(maxlen=MOST_CHANGES)
        self._wanted = asyncio.Event()
        self._joined = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to listen."""
        subscription = subscribe(CHANGES_GROUP, about="Topic changes", ready=self._begin, take=self._receive)
        self._jobs = [asyncio.create_task(job) for job in (subscription, self._run())]
        for job in self._jobs:
            job.add_done_callback(self._job_ended)

    def watch(self, subjects: Collection[TopicSource], topics: Collection[str]) -> None:
        """Add a viewer of some topics of these sources."""
        for one in subjects:
            self.viewers[one.name] += 1
            if one.name not in self._watched:
                self._watched[one.name] = _WatchedSource(one)
                self._wanted.set()
            self._watched[one.name].viewed_keys.update(_list_keys(one, topics))

    def unwatch(self, subjects: Collection[TopicSource], topics: Collection[str]) -> None:
        """Remove a viewer; sources without viewers are soon dropped."""
        for one in subjects:
            self.viewers[one.name] -= 1
            watched = self._watched[one.name]
            watched.left_at = asyncio.get_running_loop().time()
            watched.viewed_keys.subtract(_list_keys(one, topics))
            # Counters keep entries with zero.
            watched.viewed_keys += Counter()

    def get_snapshots(self, subject: TopicSource, key: str) -> tuple[TopicSnapshot, ...]:
        """Return the latest snapshots of an object; empty if unknown."""
        return self._watched[subject.name].snapshots.get(key, ())

    async def wait_until_read(self, subjects: Collection[TopicSource]) -> None:
        """Wait until these sources have been read once."""
        for one in subjects:
            await self._watched[one.name].is_known.wait()

    def position_at(self, moment: float, subjects: Collection[TopicSource]) -> int | None:
        """Return the number of the last change before a moment; None if later changes may be missing."""
        is_missed = any(self._watched[one.name].since > moment for one in subjects)
        if is_missed or (len(self._changes) == MOST_CHANGES and self._changes[0].at >= moment):
            return None
        return next((one.number for one in reversed(self._changes) if one.at < moment), 0)

    def list_changes_after(self, number: int) -> list[TopicChange] | None:
        """Return the changes after a change that a viewer knows; None if they are no longer known."""
        if len(self._changes) == MOST_CHANGES and self._changes[0].number > number + 1:
            return None
        found = []
        for one in reversed(self._changes):
            if one.number <= number:
                break
            found.append(one)
        return found

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """End all viewers after a crashed job; they reconnect to a new broadcaster instead of hanging."""
        if job.cancelled() or job.exception() is None:
            return
        logger.error("The subscription to topic changes failed", exc_info=job.exception())
        self.is_broken = True
        for other in self._jobs:
            other.cancel()
        for one in self._watched.values():
            one.is_known.set()
        self._wake()

    async def _begin(self) -> None:
        if self._joined.is_set():
            # Messages during the outage are lost.
            for one in self._watched.values():
                one.due_at = min(one.due_at, one.looked_at + DISCONNECTED_POLL_SECONDS)
            self._wanted.set()
        self._joined.set()

    async def _receive(self, message: dict[str, Any]) -> None:
        watched = self._watched.get(message["about"])
        if watched is not None:
            watched.changed_keys.update(message["keys"])
            self._wanted.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await self._joined.wait()
        while self._watched:
            due_at = min(self._due_at(one) for one in self._watched.values())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), max(0.001, due_at - loop.time()))
            self._wanted.clear()
            self._drop_unwatched()
            begun = loop.time()
            told = [shown for one in list(self._watched.values()) for shown in await self._poll_source(one)]
            if told:
                self._record_changes(told, await self._lines())
            rest = min(LONGEST_REST_SECONDS, REST_FACTOR * (loop.time() - begun))
            await asyncio.sleep(max(BROADCAST_INTERVAL_SECONDS, rest))
        # No viewer came meanwhile: the next one starts a new broadcaster.
        if _broadcasters.get(loop) is self:
            del _broadcasters[loop]
        self._jobs[0].cancel()

    def _due_at(self, watched: _WatchedSource) -> float:
        if self.viewers[watched.subject.name]:
            return watched.due_at
        return min(watched.due_at, watched.left_at + LINGER_SECONDS)

    def _drop_unwatched(self) -> None:
        left_before = asyncio.get_running_loop().time() - LINGER_SECONDS
        for name, one in list(self._watched.items()):
            if not self.viewers[name] and one.left_at <= left_before:
                del self._watched[name]

    async def _poll_source(self, watched: _WatchedSource) -> list[TopicSnapshot]:
        begun = asyncio.get_running_loop().time()
        if begun < watched.due_at:
            named, watched.changed_keys = watched.changed_keys, set()
            if named and watched.subject.reads_watched_keys:
                named = set(watched.viewed_keys)
            return await self._compare(watched, named) if named else []
        watched.changed_keys.clear()
        found = await self._read(watched.subject, watched.keys_to_read())
        gone = watched.snapshots.keys() - found.keys()
        told = list(watched.update(found, (), with_age=True))
        if gone:
            # The end of an object was published already, unless its message was lost.
            told += await self._compare(watched, gone)
            for key in gone:
                watched.snapshots.pop(key, None)
        took = asyncio.get_running_loop().time() - begun
        watched.looked_at = begun
        watched.due_at = begun + max(watched.subject.poll_seconds, REST_FACTOR * took)
        if not watched.is_known.is_set():
            watched.since = begun
            watched.is_known.set()
            return []
        return told

    async def _compare(self, watched: _WatchedSource, named: Collection[str]) -> list[TopicSnapshot]:
        found = await self._read(watched.subject, named)
        return list(watched.update(found, named, with_age=False))

    def _record_changes(self, told: list[TopicSnapshot], lines: Mapping[int, tuple[int, ...]]) -> None:
        now = asyncio.get_running_loop().time()
        for one in told:
            place = one.audience.location
            above = lines.get(place.scope_id, ()) if place is not None and one.list_topic else ()
            self.number += 1
            topics = one.topics | {f"{one.list_topic}:{pk}" for pk in above}
            self._changes.append(TopicChange(self.number, now, one.audience, topics))
        self._wake()

    def _wake(self) -> None:
        self.change_event.set()
        self.change_event = asyncio.Event()

    @database_sync_to_async
    def _read(self, subject: TopicSource, keys: Collection[str] | None) -> SnapshotsByKey:
        return subject.read_snapshots(keys)

    @database_sync_to_async
    def _lines(self) -> Mapping[int, tuple[int, ...]]:
        return get_scope_lineages()


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Broadcaster] = weakref.WeakKeyDictionary()


def _list_keys(subject: TopicSource, topics: Iterable[str]) -> list[str]:
    """Return the keys that topics of a source name."""
    named = (topic.partition(":") for topic in topics)
    return [key for name, _, key in named if name in subject.topics]


@asynccontextmanager
async def watch_sources(
    subjects: Collection[TopicSource], topics: Collection[str] = ()
) -> AsyncIterator[Broadcaster]:
    """Open the broadcaster of this process for a viewer of topics, once it has read their sources."""
    loop = asyncio.get_running_loop()
    found = _broadcasters.get(loop)
    if found is None or found.is_broken:
        found = _broadcasters[loop] = Broadcaster()
        found.start()
    found.watch(subjects, topics)
    try:
        await found.wait_until_read(subjects)
        yield found
    finally:
        found.unwatch(subjects, topics)
