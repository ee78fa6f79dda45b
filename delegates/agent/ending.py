"""Ends the program in good order: finish what runs, send what was written, say goodbye."""

import contextlib
import signal
import threading
import time
from queue import SimpleQueue

from delegates.agent.heartbeats import heartbeat
from delegates.agent.logs.uploading import upload
from delegates.agent.manager import Refused, Unreachable
from delegates.agent.program import DRAIN_SECONDS, Agent, NotRegistered, log

UPLOAD_SECONDS = 10.0


def end_on_signals(agent: Agent) -> None:
    """SIGTERM and SIGINT drain; a second one ends at once."""
    # A signal comes in the middle of whatever the main thread does, even of another signal's handler, and may
    # find any lock taken. This queue is made for that; all else is done by a thread.
    told: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.put(number))
    threading.Thread(target=_end_when_told, args=(agent, told), name="ending", daemon=True).start()


def _end_when_told(agent: Agent, told: "SimpleQueue[int]") -> None:
    told.get()
    agent.drain()
    told.get()
    agent.ended.set()


def finish(agent: Agent) -> None:
    """Wait for running tasks, send the rest of their logs, deregister."""
    with contextlib.suppress(NotRegistered, Unreachable, Refused):
        # Now and not with the next beat: until the manager knows, it may give us one more.
        agent.learn(agent.ask("/agent/v1/heartbeat", heartbeat(agent)))
    deadline = time.monotonic() + DRAIN_SECONDS
    while not agent.work.idle.wait(0.2):
        if agent.ended.is_set() or time.monotonic() > deadline:
            log.warning("Ending with %d tasks unfinished", len(agent.work.running()))
            break
    _upload_rest(agent)
    with contextlib.suppress(NotRegistered, Unreachable, Refused):
        agent.ask("/agent/v1/deregister", {})
        log.info("Deregistered")
    agent.ended.set()


def _upload_rest(agent: Agent) -> None:
    deadline = time.monotonic() + UPLOAD_SECONDS
    while (waiting := agent.spool.waiting()) and time.monotonic() < deadline and not agent.ended.is_set():
        for lines in waiting:
            upload(agent, lines)
        time.sleep(0.2)
