"""WebSocket on which the manager announces tasks; the agent polls without it (R015, R016)."""

import contextlib
import json
import random
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, WebSocketException
from websockets.sync.client import ClientConnection, connect

from delegates.agent import VERSION
from delegates.agent.agent import Agent, log
from delegates.agent.manager_client import Backoff, SessionLost

MESSAGE_BYTES = 64 * 1024
SPREAD_SECONDS = 5.0
UNAUTHENTICATED, RESTARTS = 4401, 1012


def listen_to_manager(agent: Agent) -> None:
    """Connect, listen, and connect again, until the agent ends."""
    backoff = Backoff(first=0.5, most=15)
    while not agent.ended.is_set():
        if not agent.registered.wait(1.0):
            continue
        session = agent.manager.session
        try:
            with _connect(agent, session) as socket:
                _listen(agent, socket, backoff)
        except ConnectionClosed as closed:
            _record_close(agent, session, closed)
            if closed.rcvd and closed.rcvd.code == RESTARTS:
                # All agents receive this at the same moment.
                agent.ended.wait(random.uniform(0, SPREAD_SECONDS))  # noqa: S311  -- spreads, guards nothing
        except (WebSocketException, InvalidHandshake, OSError, TimeoutError) as problem:
            log.warning("No WebSocket to the manager, polling instead: %s", problem)
        finally:
            agent.socket = None
            agent.socket_tried.set()
        agent.ended.wait(backoff.next())


def _connect(agent: Agent, session: str) -> ClientConnection:
    url = agent.settings.manager_url.replace("http", "ws", 1) + agent.limits.socket_path
    return connect(
        url,
        ssl=agent.tls if url.startswith("wss:") else None,
        additional_headers={"Authorization": f"Bearer {session}"},
        user_agent_header=f"slipway-delegate/{VERSION}",
        max_size=MESSAGE_BYTES,
        open_timeout=10,
        ping_interval=20,
        ping_timeout=20,
        close_timeout=1,
    )


def _listen(agent: Agent, socket: ClientConnection, backoff: Backoff) -> None:
    log.info("Connected by WebSocket")
    agent.socket = socket
    agent.socket_tried.set()
    agent.poll_tasks_now.set()
    agent.beat_now.set()
    while not agent.ended.is_set():
        with contextlib.suppress(TimeoutError):
            _handle_message(agent, socket.recv(timeout=1.0))
            # Not before: a manager accepts a socket before it closes it, to say why.
            backoff.reset()


def _handle_message(agent: Agent, message: str | bytes) -> None:
    notice: Any = None
    with contextlib.suppress(ValueError):
        notice = json.loads(message)
    kind = notice.get("type") if isinstance(notice, dict) else None
    if kind == "task_available":
        agent.poll_tasks_now.set()
    elif kind == "task_aborted":
        agent.work.stop([str(notice.get("task_id"))], [])
    elif kind in ("drain", "configuration_changed"):
        # The heartbeat's response has the rest.
        agent.beat_now.set()
    elif kind == "heartbeat_ack":
        agent.apply_heartbeat_response(notice, agent.reported_fences)
        agent.acknowledged.set()


def _record_close(agent: Agent, session: str, closed: ConnectionClosed) -> None:
    code = closed.rcvd.code if closed.rcvd else 0
    if code == UNAUTHENTICATED:
        reason = closed.rcvd.reason if closed.rcvd else ""
        agent.drop_session(
            session, SessionLost(401, reason or "session_invalid", reason, body={}, retry_after=0)
        )
    else:
        log.info("The WebSocket closed (%s); polling until it is back", code or "without a close frame")
