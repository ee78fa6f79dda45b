"""Broadcaster of one web process: notices to its agents' sockets and long polls."""

import asyncio
import json
import logging
import signal
import threading
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any, Protocol

from delegates.protocol.heartbeats import HeartbeatBuffer
from delegates.protocol.notices import AGENTS_GROUP, NoticeScan, scan_notices
from delegates.protocol.requests import run_in_thread
from rbac.access_changes import ACCESS_GROUP
from web.http.outages import OUTAGE_ERRORS, is_outage
from web.live.subscriptions import subscribe

SCAN_INTERVAL_SECONDS = 2.0
# Interval of session checks: notices report ended sessions, and heartbeats detect them too.
SCANS_PER_SESSION_CHECK = 15
# Delay between scans after access changes: one scan serves all changes meanwhile.
REST_SECONDS = 0.5
logger = logging.getLogger(__name__)


class AgentConnection(Protocol):
    """A socket or a waiting poll of one instance."""

    instance_id: int
    delegate_id: int

    def send_notice(self, text: str) -> None:
        """Pass on a notice."""

    def end(self, reason: str) -> None:
        """End the session."""


class AgentBroadcaster:
    """Listener for notices, with a regular scan for lost ones."""

    def __init__(self) -> None:
        self.users = 0
        self.is_closing = False
        self.heartbeats = HeartbeatBuffer()
        # Set once the subscription is active or has failed: earlier messages would be missed.
        self.ready = asyncio.Event()
        self._by_instance: dict[int, set[AgentConnection]] = defaultdict(set)
        self._by_delegate: dict[int, set[AgentConnection]] = defaultdict(set)
        self._is_session_check_due = False
        self._access_changed = asyncio.Event()
        self._jobs: list[asyncio.Task[None]] = []
        self._restore: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start to listen."""
        notices = subscribe(
            AGENTS_GROUP, about="Notices to agents", ready=self._mark_ready, take=self._forward
        )
        access = subscribe(
            ACCESS_GROUP,
            about="Changes of access",
            ready=self._mark_access_changed,
            take=self._mark_access_changed,
        )
        self._jobs = [
            asyncio.create_task(job)
            for job in (notices, access, self._scan_regularly(), self._scan_after_access_changes())
        ]
        for job in self._jobs:
            job.add_done_callback(_log_job_error)
        self._restore = _on_shutdown(self.close)

    def stop(self) -> None:
        """Stop listening."""
        self._restore()
        self.heartbeats.stop()
        for job in self._jobs:
            job.cancel()

    def close(self) -> None:
        """Release all waiting sockets at the end of the process; their disconnects are not events."""
        self.is_closing = True
        for present in self._list_connections():
            present.send_notice("")

    @contextmanager
    def register(self, present: AgentConnection) -> Iterator[None]:
        """Deliver notices to a connection for the block."""
        self._by_instance[present.instance_id].add(present)
        self._by_delegate[present.delegate_id].add(present)
        try:
            yield
        finally:
            _remove_connection(self._by_instance, present.instance_id, present)
            _remove_connection(self._by_delegate, present.delegate_id, present)

    def has_instance(self, instance_id: int) -> bool:
        """Return whether an instance has a connection to this process."""
        return instance_id in self._by_instance

    def _list_connections(self) -> list[AgentConnection]:
        return [connection for group in self._by_instance.values() for connection in group]

    async def _mark_ready(self) -> None:
        self._is_session_check_due = True
        self.ready.set()

    async def _forward(self, message: dict[str, Any]) -> None:
        match message:
            case {"type": "agents.task", "delegate": delegate_id, "task": task_id}:
                self._notify_delegate(delegate_id, build_task_notice(task_id))
            case {"type": "agents.abort", "instance": instance_id, "task": task_id}:
                self._notify_instance(instance_id, json.dumps({"type": "task_aborted", "task_id": task_id}))
            case {"type": "agents.drain", "delegate": delegate_id}:
                self._notify_delegate(delegate_id, '{"type": "drain"}')
            case {"type": "agents.configuration", "delegates": delegate_ids}:
                for delegate_id in delegate_ids:
                    self._notify_delegate(delegate_id, '{"type": "configuration_changed"}')
            case {"type": "agents.ended", "instances": instance_ids, "reason": reason}:
                for instance_id in instance_ids:
                    self.end(instance_id, reason)

    def _notify_instance(self, instance_id: int, text: str) -> None:
        for present in list(self._by_instance.get(instance_id, ())):
            present.send_notice(text)

    def _notify_delegate(self, delegate_id: int, text: str) -> None:
        for present in list(self._by_delegate.get(delegate_id, ())):
            present.send_notice(text)

    def end(self, instance_id: int, reason: str) -> None:
        """End all listeners of an instance."""
        for present in list(self._by_instance.get(instance_id, ())):
            present.end(reason)

    async def _scan_regularly(self) -> None:
        scans = 0
        while True:
            await asyncio.sleep(SCAN_INTERVAL_SECONDS)
            scans += 1
            if not self._by_instance:
                continue
            checks_sessions = self._is_session_check_due or scans % SCANS_PER_SESSION_CHECK == 0
            if await self._scan(list(self._by_instance) if checks_sessions else []):
                self._is_session_check_due = False

    async def _scan_after_access_changes(self) -> None:
        """Scan for ended sessions after every change of access: a scope may have been archived."""
        while True:
            await self._access_changed.wait()
            self._access_changed.clear()
            if self._by_instance and not await self._scan(list(self._by_instance)):
                self._is_session_check_due = True
            await asyncio.sleep(REST_SECONDS)

    async def _mark_access_changed(self, change: object = None) -> None:
        self._access_changed.set()

    async def _scan(self, instance_ids: list[int]) -> bool:
        try:
            self._apply_scan(await run_in_thread(scan_notices, instance_ids))
        except OUTAGE_ERRORS as error:
            if not is_outage(error):
                raise
            logger.warning("Nothing was looked up for agents: %s", error)
            return False
        return True

    def _apply_scan(self, scan: NoticeScan) -> None:
        for delegate_id, task_id in scan.offers:
            self._notify_delegate(delegate_id, build_task_notice(task_id))
        for instance_id, reason in scan.ended:
            self.end(instance_id, reason)


def build_task_notice(task_id: str) -> str:
    """Return the notice of a task: its address without its content (R015)."""
    return json.dumps({"type": "task_available", "task_id": task_id})


def _remove_connection(groups: dict[int, set[AgentConnection]], key: int, present: AgentConnection) -> None:
    groups[key].discard(present)
    if not groups[key]:
        del groups[key]


def _log_job_error(job: "asyncio.Task[None]") -> None:
    if not job.cancelled() and (error := job.exception()) is not None:
        logger.error("Publishing to agents has stopped", exc_info=error)


def _on_shutdown(close: Callable[[], None]) -> Callable[[], None]:
    """Call `close` when the server shuts down, which would otherwise wait for long polls."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(close)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    numbers = [number for number, handler in before.items() if callable(handler)]
    for number in numbers:
        signal.signal(number, handle_signal)

    def restore() -> None:
        for number in numbers:
            if signal.getsignal(number) is handle_signal:
                signal.signal(number, before[number])

    return restore


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AgentBroadcaster] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def get_agent_broadcaster() -> AsyncIterator[AgentBroadcaster]:
    """Yield this process's broadcaster to a socket; the last socket ends it."""
    loop = asyncio.get_running_loop()
    hub = _broadcasters.get(loop)
    if hub is None:
        hub = _broadcasters[loop] = AgentBroadcaster()
        hub.start()
    hub.users += 1
    try:
        await hub.ready.wait()
        yield hub
    finally:
        hub.users -= 1
        if hub.users == 0:
            hub.stop()
            if _broadcasters.get(loop) is hub:
                del _broadcasters[loop]
