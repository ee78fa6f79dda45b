"""Agent: the state its loops share, the manager's limits, and the load of the process."""

import json
import logging
import os
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from delegates.agent.identity import InstanceIdentity, load_instance_key, load_stable_id
from delegates.agent.isolation import Isolation
from delegates.agent.logs.delegate_log import LogUploadBuffer
from delegates.agent.logs.spool import LogSpool
from delegates.agent.manager_client import FINAL_CODES, READ_SECONDS, ManagerClient, SessionLost
from delegates.agent.settings import AgentSettings
from delegates.agent.tasks import HeldTasks

_STAT, _MEMORY = Path("/proc/stat"), Path("/proc/self/statm")


@dataclass(frozen=True)
class LoadReading:
    """Percentages of all processors since the reading before, and memory in MiB."""

    cpu_process: float
    cpu_system: float
    memory_mib: float


class LoadMeter:
    """Meter of the load between two readings."""

    def __init__(self) -> None:
        self._before = _read_counters()

    def read(self) -> LoadReading:
        before, self._before = self._before, _read_counters()
        now = self._before
        seconds = (now.clock - before.clock) * (os.cpu_count() or 1)
        ticks = now.ticks - before.ticks
        return LoadReading(
            cpu_process=_compute_percent(now.process - before.process, seconds),
            cpu_system=_compute_percent(now.busy_ticks - before.busy_ticks, ticks),
            memory_mib=_read_memory_mib(),
        )


@dataclass(frozen=True)
class _LoadCounters:
    clock: float
    process: float
    ticks: int
    busy_ticks: int


def _read_counters() -> _LoadCounters:
    ticks, busy_ticks = _read_ticks()
    return _LoadCounters(time.monotonic(), time.process_time(), ticks, busy_ticks)


def _read_ticks() -> tuple[int, int]:
    """Return the total and the busy ticks of all processors; zeros without /proc."""
    try:
        counts = [int(count) for count in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    idle = sum(counts[3:5])
    return sum(counts), sum(counts) - idle


def _read_memory_mib() -> float:
    try:
        pages = int(_MEMORY.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024, 1)


def _compute_percent(part: float, whole: float) -> float:
    return round(min(100.0, max(0.0, 100 * part / whole)), 1) if whole > 0 else 0.0


log = logging.getLogger("slipway.delegate")


@dataclass(frozen=True)
class ProtocolLimits:
    """Limits from the manager's registration response, in seconds and bytes."""

    heartbeat_seconds: float = 60
    renew_seconds: float = 5
    poll_seconds: float = 50
    log_flush_seconds: float = 0.5
    log_chunk_bytes: int = 262_144
    socket_path: str = "/ws/agent/"


class NotRegistered(Exception):
    """Error raised without a session; wait for the next registration and retry."""


class Agent:
    """State of the agent that all loops share. `ended` stops them; `draining` only stops new tasks."""

    def __init__(
        self,
        settings: AgentSettings,
        identity: InstanceIdentity,
        tls: ssl.SSLContext,
        outgoing: LogUploadBuffer,
        isolation: Isolation,
    ) -> None:
        self.isolation = isolation
        self.settings, self.identity, self.tls = settings, identity, tls
        self.key = load_instance_key(settings.home)
        self.stable_id = load_stable_id(settings.home, self.key)
        # Tells apart a restart and a copy of the home directory that runs beside the original.
        self.process_id = uuid.uuid4().hex
        self.manager = ManagerClient(settings.manager_url, tls)
        self.load, self.metrics_load = LoadMeter(), LoadMeter()
        self.outgoing = outgoing
        self.limits = ProtocolLimits()
        self.work = HeldTasks(settings.capacity)
        self.spool = LogSpool(settings.home / "spool", settings.spool_bytes)
        self.pool = ThreadPoolExecutor(settings.capacity, thread_name_prefix="task")
        self.registered, self.draining, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.drain_requested = False
        self.socket: ClientConnection | None = None
        self.instance_id = ""
        # Fences of the tasks in the heartbeat that the manager is to acknowledge over the socket.
        self.reported_fences: Mapping[str, int] = {}
        # Set once the manager has registered the agent, or keeps it for approval.
        self.started = threading.Event()
        self.exit_code = 0
        self.configuration: Mapping[str, Any] | None = None
        # Events that wake a loop early.
        self.beat_now, self.poll_tasks_now = threading.Event(), threading.Event()
        self.acknowledged, self.socket_tried = threading.Event(), threading.Event()
        self.is_prepared, self.configuration_changed = threading.Event(), threading.Event()

    @property
    def accepts_tasks(self) -> bool:
        return (
            self.is_prepared.is_set()
            and self.registered.is_set()
            and not self.draining.is_set()
            and not self.drain_requested
        )

    @property
    def has_socket(self) -> bool:
        return self.socket is not None

    def send_message(self, message: Mapping[str, Any]) -> bool:
        """Send a message over the socket; return False without a socket."""
        socket = self.socket
        if socket is None:
            return False
        try:
            socket.send(json.dumps(message))
        except (ConnectionClosed, OSError):
            return False
        return True

    def post_with_session(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        *,
        wait_seconds: float = 0,
        read_seconds: float = READ_SECONDS,
    ) -> dict[str, Any]:
        """Post JSON with the session. Raises `NotRegistered`, `ManagerUnreachable`, `RequestRefused`."""
        session = self.manager.session
        if not self.registered.is_set():
            raise NotRegistered
        try:
            return self.manager.post(path, body, wait_seconds=wait_seconds, read_seconds=read_seconds)[1]
        except SessionLost as lost:
            self.drop_session(session, lost)
            raise NotRegistered from lost

    def drop_session(self, session: str, lost: SessionLost) -> None:
        """Register again, unless another loop did so meanwhile."""
        if session != self.manager.session:
            return
        log.warning("The manager ended this session: %s", lost)
        if lost.code in FINAL_CODES:
            self.work.stop_all()
        self.registered.clear()

    def apply_heartbeat_response(self, response: Mapping[str, Any], fences: Mapping[str, int]) -> None:
        """Apply the limits and instructions of the response to a heartbeat with tasks under these fences."""
        if session := response.get("session"):
            self.manager.session = str(session)
        self.drain_requested = bool(response.get("drain", False))
        aborted, lost = _parse_texts(response.get("aborted")), _parse_texts(response.get("lost"))
        self.work.stop(aborted, lost, fences=fences)
        if configuration := response.get("configuration"):
            self.configuration = configuration
            self.configuration_changed.set()
        self.poll_tasks_now.set()

    def start(self, loops: Mapping[str, Callable[["Agent"], None]]) -> None:
        """Run every loop in a thread of its own."""
        for name, loop in loops.items():
            threading.Thread(target=loop, args=(self,), name=name, daemon=True).start()

    def fail_on_error(self, future: "Future[None]") -> None:
        """Stop the agent after an error in a task's thread, because that task would get no result."""
        if problem := future.exception():
            self.fail(problem)

    def fail(self, problem: BaseException) -> None:
        """Stop at once with an error; the supervisor restarts the agent and leases return its tasks."""
        log.critical("The delegate stops because of an internal error", exc_info=problem)
        self.exit_code = 1
        self.ended.set()

    def drain(self) -> None:
        """Refuse new tasks; the main loop ends the program after the last task."""
        if not self.draining.is_set():
            log.info("Draining: no new tasks, %d still running", len(self.work.list_running()))
        self.draining.set()
        self.beat_now.set()
        self.poll_tasks_now.set()


def _parse_texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
