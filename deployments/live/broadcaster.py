"""Broadcaster of one execution: log frames and state, read once for all viewers of a process."""

import asyncio
import json
import logging
import weakref
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async

from deployments import log
from deployments.execution.documents import ExecutionRights, build_execution_facts, get_buttons
from deployments.log import LogBlock
from deployments.models import Execution
from web.live.subscriptions import subscribe

LARGEST_FRAME = 64 * 1024
_FRAME_OVERHEAD = len('{"type":"lines","blocks":[]}')
MOST_BUFFERED_BYTES = 1024 * 1024
MOST_BUFFERED_FRAMES = 256


@dataclass(frozen=True)
class LogFrame:
    """One message to a browser, with consecutive lines."""

    first: int
    last: int
    text: str


def build_frames(blocks: Iterable[LogBlock]) -> Iterator[LogFrame]:
    """Return consecutive blocks joined to frames of at most 64 KiB."""
    waiting: list[LogBlock] = []
    size = _FRAME_OVERHEAD
    for block in blocks:
        more = len(block.body.encode()) + 1
        if waiting and size + more > LARGEST_FRAME:
            yield _build_frame(waiting)
            waiting, size = [], _FRAME_OVERHEAD
        waiting.append(block)
        size += more
    if waiting:
        yield _build_frame(waiting)


def _build_frame(blocks: list[LogBlock]) -> LogFrame:
    bodies = ",".join(block.body for block in blocks)
    return LogFrame(blocks[0].first, blocks[-1].last, f'{{"type":"lines","blocks":[{bodies}]}}')


class FrameBuffer:
    """The newest frames of one execution, at most a megabyte, without a gap."""

    def __init__(self) -> None:
        self._frames: list[LogFrame] = []
        self._firsts: list[int] = []
        self._bytes = 0

    def add(self, frame: LogFrame) -> None:
        """Append a frame that follows on the newest one."""
        self._frames.append(frame)
        self._firsts.append(frame.first)
        self._bytes += len(frame.text)
        drop = 0
        while self._bytes > MOST_BUFFERED_BYTES or len(self._frames) - drop > MOST_BUFFERED_FRAMES:
            self._bytes -= len(self._frames[drop].text)
            drop += 1
        del self._frames[:drop], self._firsts[:drop]

    def holding(self, number: int) -> LogFrame | None:
        """Return the frame with a line."""
        at = bisect_right(self._firsts, number) - 1
        return self._frames[at] if at >= 0 and number <= self._frames[at].last else None

    @property
    def newest(self) -> LogFrame | None:
        return self._frames[-1] if self._frames else None


LINES_INTERVAL_SECONDS = 0.06
STATE_INTERVAL_SECONDS = 0.15
# Where commits bring lines and nothing else, the state is looked at less often.
IDLE_STATE_INTERVAL_SECONDS = 0.6
REFRESH_SECONDS = 5
READ_BYTES = 8 * LARGEST_FRAME
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExecutionState:
    """The execution at one moment; `facts` is its document as JSON, without rights and the last line."""

    execution: Execution
    facts: str

    def message(self, rights: ExecutionRights) -> str:
        """Return the message for a viewer with these rights."""
        viewer_state = json.dumps({"can": get_buttons(self.execution, rights), "last_line": self.last_line})
        return f'{{"type":"state","state":{self.facts[:-1]},{viewer_state[1:]}}}'

    @property
    def is_over(self) -> bool:
        return self.execution.is_over and self.execution.ended_at is not None

    @property
    def last_line(self) -> int:
        return self.execution.next_line_number - 1


class ExecutionBroadcaster:
    """Listener for one execution that fills gaps from the database and wakes its viewers.

    The channel layer may lose messages. A gap is detected by its numbers: at the next message, or within five
    seconds.
    """

    def __init__(self, execution_id: UUID) -> None:
        self.execution_id = execution_id
        self.recent = FrameBuffer()
        self.last = 0
        self.state: ExecutionState | None = None
        self.is_gone = False
        self.is_broken = False
        self.changed = asyncio.Event()
        self.viewers = 0
        self.ready = asyncio.Event()
        self._waiting: list[log.LogBlock] = []
        self._flushed_at = 0.0
        self._flush: asyncio.TimerHandle | None = None
        self._state_wanted = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to listen."""
        jobs = (self._listen(), self._keep_state(), self._look_again())
        self._jobs = [asyncio.create_task(job) for job in jobs]
        for job in self._jobs:
            job.add_done_callback(self._job_ended)

    def stop(self) -> None:
        """Stop listening."""
        if self._flush is not None:
            self._flush.cancel()
        for job in self._jobs:
            job.cancel()

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """End all viewers after a crashed job; they reconnect to a new broadcaster instead of hanging."""
        if job.cancelled():
            return
        logger.error("Watching execution %s broke off", self.execution_id, exc_info=job.exception())
        self.is_broken = True
        self.ready.set()
        self._wake()

    async def _listen(self) -> None:
        self.last = await self._last_stored()
        group, about = log.get_channel_group(self.execution_id), f"Messages of execution {self.execution_id}"
        await subscribe(group, about=about, ready=self._fill_gap, take=self._take)

    async def _fill_gap(self) -> None:
        await self._fill()
        self.ready.set()

    async def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "state.changed":
            self._state_wanted.set()
            return
        if message["last"] <= self._known:
            return
        if message["first"] > self._known + 1:
            await self._fill()
        else:
            self._add(log.LogBlock(message["first"], message["last"], message["body"]))

    @property
    def _known(self) -> int:
        return self._waiting[-1].last if self._waiting else self.last

    def _add(self, block: log.LogBlock) -> None:
        """Buffer a block for the next frame: sent at once after a pause, else a few times a second."""
        self._waiting.append(block)
        if self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_at(self._flushed_at + LINES_INTERVAL_SECONDS, self._send_waiting)

    def _send_waiting(self) -> None:
        self._flush = None
        self._flushed_at = asyncio.get_running_loop().time()
        blocks, self._waiting = self._waiting, []
        for frame in build_frames(blocks):
            self.recent.add(frame)
            self.last = frame.last
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def _fill(self) -> None:
        """Read missed blocks from the database."""
        while blocks := await self._read(self._known):
            for block in blocks:
                if block.last > self._known:
                    self._add(block)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await self._fill()
            self._state_wanted.set()

    async def _keep_state(self) -> None:
        pause = STATE_INTERVAL_SECONDS
        while True:
            self._state_wanted.clear()
            before, self.state = self.state, await self._read_state()
            self.is_gone = self.state is None
            is_new = self.state is None or before is None or before.facts != self.state.facts
            pause = STATE_INTERVAL_SECONDS if is_new else min(2 * pause, IDLE_STATE_INTERVAL_SECONDS)
            if is_new or self.state.is_over:
                self._wake()
            await asyncio.sleep(pause)
            await self._state_wanted.wait()

    @database_sync_to_async
    def _read(self, after: int) -> list[log.LogBlock]:
        return log.list_blocks(self.execution_id, after, most_bytes=READ_BYTES)

    @database_sync_to_async
    def _last_stored(self) -> int:
        next_number = (
            Execution.objects.filter(pk=self.execution_id).values_list("next_line_number", flat=True).first()
        )
        return (next_number or 1) - 1

    @database_sync_to_async
    def _read_state(self) -> ExecutionState | None:
        related = Execution.objects.select_related("pipeline", "scope", "started_by")
        execution = related.filter(pk=self.execution_id).first()
        if execution is None:
            return None
        facts = build_execution_facts(execution)
        del facts["last_line"]
        return ExecutionState(execution, json.dumps(facts, ensure_ascii=False, separators=(",", ":")))


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[UUID, ExecutionBroadcaster]] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def get_execution_broadcaster(execution_id: UUID) -> AsyncIterator[ExecutionBroadcaster]:
    """Yield the broadcaster of an execution to a viewer; the last viewer ends it."""
    hubs = _broadcasters.setdefault(asyncio.get_running_loop(), {})
    hub = hubs.get(execution_id)
    if hub is None or hub.is_broken:
        hub = hubs[execution_id] = ExecutionBroadcaster(execution_id)
        hub.start()
    hub.viewers += 1
    try:
        await hub.ready.wait()
        yield hub
    finally:
        hub.viewers -= 1
        if hub.viewers == 0:
            hub.stop()
            if hubs.get(execution_id) is hub:
                del hubs[execution_id]
