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

    def __init__(self, source: TopicSource) -> None:
        self.source = source
        self.snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
        # How many viewers name each key.
        self.viewed_keys: Counter[str] = Counter()
        self.changed_keys: set[str] = set()
        self.is_known = asyncio.Event()
        # Start of complete observation, and time of the next full read.
        self.since = 0.0
        self.read_at = 0.0
        self.due_at = 0.0
        # When the last viewer left.
        self.left_at = 0.0

    def keys_to_read(self) -> Collection[str] | None:
        """Return the keys of a full read; None for all open objects."""
        if not self.source.reads_watched_keys:
            return None
        for key in self.snapshots.keys() - self.viewed_keys.keys():
            del self.snapshots[key]
        return frozenset(self.viewed_keys)

    def update(
        self, snapshots: SnapshotsByKey, requested_keys: Collection[str], *, with_age: bool
    ) -> Iterator[TopicSnapshot]:
        """Store the new snapshots, and yield the changed ones."""
        for key, current in snapshots.items():
            before = {snapshot.location: snapshot for snapshot in self.snapshots.get(key, ())}
            snapshot_list = []
            for snapshot in current:
                was = before.pop(snapshot.location, None)
                is_same = was is not None and was.state == snapshot.state
                if was is not None and is_same and not (with_age and was.age != snapshot.age):
                    # Unreported changes of age are not counted.
                    snapshot_list.append(replace(snapshot, age=was.age))
                    continue
                snapshot_list.append(snapshot)
                yield snapshot
            self.snapshots[key] = tuple(snapshot_list)
            yield from before.values()
        for key in set(requested_keys) - snapshots.keys():
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
        self._work_event = asyncio.Event()
        self._joined = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to listen."""
        subscription = subscribe(CHANGES_GROUP, about="Topic changes", ready=self._begin, take=self._receive)
        self._jobs = [asyncio.create_task(job) for job in (subscription, self._run())]
        for job in self._jobs:
            job.add_done_callback(self._job_ended)

    def watch(self, sources: Collection[TopicSource], topics: Collection[str]) -> None:
        """Add a viewer of some topics of these sources."""
        for source in sources:
            self.viewers[source.name] += 1
            if source.name not in self._watched:
                self._watched[source.name] = _WatchedSource(source)
                self._work_event.set()
            self._watched[source.name].viewed_keys.update(_list_keys(source, topics))

    def unwatch(self, sources: Collection[TopicSource], topics: Collection[str]) -> None:
        """Remove a viewer; sources without viewers are soon dropped."""
        for source in sources:
            self.viewers[source.name] -= 1
            watched = self._watched[source.name]
            watched.left_at = asyncio.get_running_loop().time()
            watched.viewed_keys.subtract(_list_keys(source, topics))
            # Counters keep entries with zero.
            watched.viewed_keys += Counter()

    def get_snapshots(self, source: TopicSource, key: str) -> tuple[TopicSnapshot, ...]:
        """Return the latest snapshots of an object; empty if unknown."""
        return self._watched[source.name].snapshots.get(key, ())

    async def wait_until_read(self, sources: Collection[TopicSource]) -> None:
        """Wait until these sources have been read once."""
        for source in sources:
            await self._watched[source.name].is_known.wait()

    def position_at(self, moment: float, sources: Collection[TopicSource]) -> int | None:
        """Return the number of the last change before a moment; None if later changes may be missing."""
        is_missed = any(self._watched[source.name].since > moment for source in sources)
        if is_missed or (len(self._changes) == MOST_CHANGES and self._changes[0].at >= moment):
            return None
        return next((change.number for change in reversed(self._changes) if change.at < moment), 0)

    def list_changes_after(self, number: int) -> list[TopicChange] | None:
        """Return the changes after a change that a viewer knows; None if they are no longer known."""
        if len(self._changes) == MOST_CHANGES and self._changes[0].number > number + 1:
            return None
        changes = []
        for change in reversed(self._changes):
            if change.number <= number:
                break
            changes.append(change)
        return changes

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """End all viewers after a crashed job; they reconnect to a new broadcaster instead of hanging."""
        if job.cancelled() or job.exception() is None:
            return
        logger.error("The subscription to topic changes failed", exc_info=job.exception())
        self.is_broken = True
        for other in self._jobs:
            other.cancel()
        for watched in self._watched.values():
            watched.is_known.set()
        self._wake()

    async def _begin(self) -> None:
        if self._joined.is_set():
            # Messages during the outage are lost.
            for watched in self._watched.values():
                watched.due_at = min(watched.due_at, watched.read_at + DISCONNECTED_POLL_SECONDS)
            self._work_event.set()
        self._joined.set()

    async def _receive(self, message: dict[str, Any]) -> None:
        watched = self._watched.get(message["about"])
        if watched is not None:
            watched.changed_keys.update(message["keys"])
            self._work_event.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await self._joined.wait()
        while self._watched:
            due_at = min(self._due_at(watched) for watched in self._watched.values())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._work_event.wait(), max(0.001, due_at - loop.time()))
            self._work_event.clear()
            self._drop_unwatched()
            begun = loop.time()
            changed = [
                snapshot
                for watched in list(self._watched.values())
                for snapshot in await self._poll_source(watched)
            ]
            if changed:
                self._record_changes(changed, await self._lines())
            pause = min(LONGEST_REST_SECONDS, REST_FACTOR * (loop.time() - begun))
            await asyncio.sleep(max(BROADCAST_INTERVAL_SECONDS, pause))
        # No viewer came meanwhile: the next one starts a new broadcaster.
        if _broadcasters.get(loop) is self:
            del _broadcasters[loop]
        self._jobs[0].cancel()

    def _due_at(self, watched: _WatchedSource) -> float:
        if self.viewers[watched.source.name]:
            return watched.due_at
        return min(watched.due_at, watched.left_at + LINGER_SECONDS)

    def _drop_unwatched(self) -> None:
        left_before = asyncio.get_running_loop().time() - LINGER_SECONDS
        for name, watched in list(self._watched.items()):
            if not self.viewers[name] and watched.left_at <= left_before:
                del self._watched[name]

    async def _poll_source(self, watched: _WatchedSource) -> list[TopicSnapshot]:
        begun = asyncio.get_running_loop().time()
        if begun < watched.due_at:
            keys, watched.changed_keys = watched.changed_keys, set()
            if keys and watched.source.reads_watched_keys:
                keys = set(watched.viewed_keys)
            return await self._compare(watched, keys) if keys else []
        watched.changed_keys.clear()
        snapshots = await self._read(watched.source, watched.keys_to_read())
        ended_keys = watched.snapshots.keys() - snapshots.keys()
        changed = list(watched.update(snapshots, (), with_age=True))
        if ended_keys:
            # The end of an object was published already, unless its message was lost.
            changed += await self._compare(watched, ended_keys)
            for key in ended_keys:
                watched.snapshots.pop(key, None)
        took = asyncio.get_running_loop().time() - begun
        watched.read_at = begun
        watched.due_at = begun + max(watched.source.poll_seconds, REST_FACTOR * took)
        if not watched.is_known.is_set():
            watched.since = begun
            watched.is_known.set()
            return []
        return changed

    async def _compare(self, watched: _WatchedSource, keys: Collection[str]) -> list[TopicSnapshot]:
        snapshots = await self._read(watched.source, keys)
        return list(watched.update(snapshots, keys, with_age=False))

    def _record_changes(self, changed: list[TopicSnapshot], lines: Mapping[int, tuple[int, ...]]) -> None:
        now = asyncio.get_running_loop().time()
        for snapshot in changed:
            place = snapshot.audience.location
            above = lines.get(place.scope_id, ()) if place is not None and snapshot.list_topic else ()
            self.number += 1
            topics = snapshot.topics | {f"{snapshot.list_topic}:{pk}" for pk in above}
            self._changes.append(TopicChange(self.number, now, snapshot.audience, topics))
        self._wake()

    def _wake(self) -> None:
        self.change_event.set()
        self.change_event = asyncio.Event()

    @database_sync_to_async
    def _read(self, source: TopicSource, keys: Collection[str] | None) -> SnapshotsByKey:
        return source.read_snapshots(keys)

    @database_sync_to_async
    def _lines(self) -> Mapping[int, tuple[int, ...]]:
        return get_scope_lineages()


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Broadcaster] = weakref.WeakKeyDictionary()


def _list_keys(source: TopicSource, topics: Iterable[str]) -> list[str]:
    """Return the keys that topics of a source name."""
    parts = (topic.partition(":") for topic in topics)
    return [key for name, _, key in parts if name in source.topics]


@asynccontextmanager
async def watch_sources(
    sources: Collection[TopicSource], topics: Collection[str] = ()
) -> AsyncIterator[Broadcaster]:
    """Open the broadcaster of this process for a viewer of topics, once it has read their sources."""
    loop = asyncio.get_running_loop()
    broadcaster = _broadcasters.get(loop)
    if broadcaster is None or broadcaster.is_broken:
        broadcaster = _broadcasters[loop] = Broadcaster()
        broadcaster.start()
    broadcaster.watch(sources, topics)
    try:
        await broadcaster.wait_until_read(sources)
        yield broadcaster
    finally:
        broadcaster.unwatch(sources, topics)
