"""The agent as a whole: what its loops share, how they start, and how it ends."""

import json
import logging
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from delegates.agent.environment import AgentSettings
from delegates.agent.identity import Identity
from delegates.agent.instance_key import load_instance_key
from delegates.agent.isolation import Isolation
from delegates.agent.load import Load
from delegates.agent.logs.outgoing import Outgoing
from delegates.agent.logs.spool import Spool
from delegates.agent.manager import ENDED, READ_SECONDS, Manager, SessionLost
from delegates.agent.work import Work

DRAIN_SECONDS = 600.0
log = logging.getLogger("slipway.delegate")


@dataclass(frozen=True)
class Terms:
    """What the manager asked for when we registered, in seconds and bytes."""

    heartbeat_seconds: float = 60
    renew_seconds: float = 5
    poll_seconds: float = 50
    log_flush_seconds: float = 0.5
    log_chunk_bytes: int = 262_144
    socket_path: str = "/ws/agent/"


class NotRegistered(Exception):
    """There is no session now; wait for `registered` and try again."""


class Agent:
    """Shared by all loops. `ended` stops them; `draining` only stops new tasks."""

    def __init__(
        self,
        settings: AgentSettings,
        identity: Identity,
        tls: ssl.SSLContext,
        outgoing: Outgoing,
        isolation: Isolation,
    ) -> None:
        self.isolation = isolation
        self.settings, self.identity, self.tls = settings, identity, tls
        self.key = load_instance_key(settings.home)
        self.manager = Manager(settings.manager_url, tls)
        self.load, self.metrics_load = Load(), Load()
        self.outgoing = outgoing
        self.terms = Terms()
        self.work = Work(settings.capacity)
        self.spool = Spool(settings.home / "spool", settings.spool_bytes)
        self.pool = ThreadPoolExecutor(settings.capacity, thread_name_prefix="task")
        self.registered, self.draining, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.is_told_to_drain = False
        self.socket: ClientConnection | None = None
        self.instance_id = ""
        self.exit_code = 0
        self.configuration: Mapping[str, Any] | None = None
        # Set to make a loop go round before its time.
        self.beat_now, self.look_for_tasks = threading.Event(), threading.Event()
        self.acknowledged, self.socket_tried = threading.Event(), threading.Event()
        self.is_prepared, self.configuration_news = threading.Event(), threading.Event()

    @property
    def takes_tasks(self) -> bool:
        return (
            self.is_prepared.is_set()
            and self.registered.is_set()
            and not self.draining.is_set()
            and not self.is_told_to_drain
        )

    @property
    def has_socket(self) -> bool:
        return self.socket is not None

    def say(self, message: Mapping[str, Any]) -> bool:
        """Send over the socket; false where there is none."""
        socket = self.socket
        if socket is None:
            return False
        try:
            socket.send(json.dumps(message))
        except (ConnectionClosed, OSError):
            return False
        return True

    def ask(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        wait_seconds: float = 0,
        read_seconds: float = READ_SECONDS,
    ) -> dict[str, Any]:
        """Post with the session. Raises `NotRegistered`, `Unreachable`, `Refused`."""
        session = self.manager.session
        if not self.registered.is_set():
            raise NotRegistered
        try:
            return self.manager.post(path, body, wait_seconds=wait_seconds, read_seconds=read_seconds)[1]
        except SessionLost as lost:
            self.lose_session(session, lost)
            raise NotRegistered from lost

    def lose_session(self, session: str, lost: SessionLost) -> None:
        """Register again, unless another loop did so meanwhile."""
        if session != self.manager.session:
            return
        log.warning("The manager ended this session: %s", lost)
        if lost.code in ENDED:
            self.work.stop_all()
        self.registered.clear()

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Take in what a heartbeat's answer says."""
        if session := answer.get("session"):
            self.manager.session = str(session)
        self.is_told_to_drain = bool(answer.get("drain", False))
        self.work.stop(_texts(answer.get("aborted")), _texts(answer.get("lost")))
        if configuration := answer.get("configuration"):
            self.configuration = configuration
            self.configuration_news.set()
        self.look_for_tasks.set()

    def start(self, loops: Mapping[str, Callable[["Agent"], None]]) -> None:
        """Run every loop in a thread of its own."""
        for name, loop in loops.items():
            threading.Thread(target=loop, args=(self,), name=name, daemon=True).start()

    def look_after(self, future: "Future[None]") -> None:
        """End the program if a task's thread broke: nothing would answer that task."""
        if problem := future.exception():
            self.fail(problem)

    def fail(self, problem: BaseException) -> None:
        """End at once with an error: whoever started us starts us again, and leases do the rest."""
        log.critical("The delegate ends because of an error of its own", exc_info=problem)
        self.exit_code = 1
        self.ended.set()

    def drain(self) -> None:
        """Take no more tasks; the main loop ends the program when the last one is done."""
        if not self.draining.is_set():
            log.info("Draining: no more tasks are taken, %d are being finished", len(self.work.running()))
        self.draining.set()
        self.beat_now.set()
        self.look_for_tasks.set()


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
