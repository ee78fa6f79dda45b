"""The agent's server of health: alive while it runs, ready while it is connected."""

import json
import threading
from types import SimpleNamespace
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import urlopen

from delegates.agent.agent import Agent
from delegates.agent.health_server import start_health_server


def build_agent() -> Any:
    """Build what the server reads of an agent."""
    return SimpleNamespace(
        settings=SimpleNamespace(port=0),
        started=threading.Event(),
        draining=threading.Event(),
        registered=threading.Event(),
        drain_requested=False,
        has_socket=False,
        work=SimpleNamespace(list_running=list),
    )


def get_status(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, json.loads(answer.read())["status"]
    except HTTPError as refusal:
        with refusal:
            return refusal.code, json.loads(refusal.read())["status"]


def test_it_has_started_once_it_has_registered_also_while_the_manager_is_away() -> None:
    agent = build_agent()
    server = start_health_server(cast(Agent, agent))
    try:
        assert get_status(server.server_port, "/api/started") == (503, "registering")
        agent.started.set()
        assert get_status(server.server_port, "/api/started") == (200, "registering")
    finally:
        server.shutdown()
        server.server_close()


def test_it_is_ready_only_while_it_is_connected_and_not_draining() -> None:
    agent = build_agent()
    server = start_health_server(cast(Agent, agent))
    try:
        port = server.server_port
        assert get_status(port, "/api/ready") == (503, "registering")
        agent.registered.set()
        assert get_status(port, "/api/ready") == (200, "registered")
        agent.draining.set()
        assert get_status(port, "/api/ready") == (503, "draining")
        assert get_status(port, "/api/health") == (200, "draining")
    finally:
        server.shutdown()
        server.server_close()
