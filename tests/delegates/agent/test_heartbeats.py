"""Heartbeats, and the performance line of the log."""

import json
import re
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from delegates.agent import heartbeats
from delegates.agent.agent import Agent, LoadMeter
from delegates.agent.heartbeats import _send_heartbeat, build_heartbeat, format_performance
from delegates.agent.manager_socket import _handle_message
from delegates.agent.tasks import AgentTask, HeldTask, HeldTasks
from delegates.protocol.limits import PROTOCOL_LIMITS


def test_the_performance_line_has_the_documented_six_numbers() -> None:
    agent = cast(Agent, SimpleNamespace(work=HeldTasks(2)))
    line = format_performance(agent, LoadMeter())
    assert re.findall(r"([A-Z][A-Za-z ]+): [\d.]+", line) == [
        "CPU Process",
        "CPU System",
        "Max Executing Task Count",
        "Max Executing Future Count",
        "Max Validating Task Count",
        "Max Validating Future Count",
    ]


def test_the_manager_asks_for_a_heartbeat_each_minute() -> None:
    assert PROTOCOL_LIMITS["heartbeat_seconds"] == 60


def test_a_heartbeat_reports_the_revision_of_the_configuration() -> None:
    state = SimpleNamespace(
        work=HeldTasks(2), load=LoadMeter(), draining=threading.Event(), configuration={"revision": "7:x"}
    )
    agent = cast(Agent, state)
    assert build_heartbeat(agent)["configuration_revision"] == "7:x"
    # A manager of an earlier release sends none.
    state.configuration = {"script": "true"}
    assert build_heartbeat(agent)["configuration_revision"] == ""
    state.configuration = None
    assert build_heartbeat(agent)["configuration_revision"] == ""


class HeartbeatAgent:
    """The part of an agent that sends heartbeats; its manager acknowledges them over the socket, or not."""

    def __init__(self) -> None:
        self.work, self.load, self.configuration = HeldTasks(5), LoadMeter(), None
        self.draining, self.registered, self.acknowledged = (threading.Event() for _ in range(3))
        self.poll_tasks_now = threading.Event()
        self.reported_fences: dict[str, int] = {}
        self.acknowledges = False
        self.registered.set()

    def apply_heartbeat_response(self, response: dict[str, Any], fences: dict[str, int]) -> None:
        Agent.apply_heartbeat_response(cast(Agent, self), response, fences)

    def add(self, fence: int) -> HeldTask:
        return self.work.add(
            AgentTask(id="a", kind="aws", fence=fence, params={}, acquired_at=time.monotonic())
        )

    def send_message(self, message: dict[str, Any]) -> bool:
        if self.acknowledges:
            self.acknowledge(lost=["a"])
        return True

    def acknowledge(self, *, lost: list[str]) -> None:
        _handle_message(cast(Agent, self), json.dumps({"type": "heartbeat_ack", "lost": lost}))

    def post_with_session(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        # The task comes back while the manager answers.
        self.add(fence=2)
        return {"lost": ["a"]}


def test_a_heartbeat_stops_only_the_attempt_that_it_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "ACK_SECONDS", 0.01)
    agent = HeartbeatAgent()
    agent.add(fence=1)
    _send_heartbeat(cast(Agent, agent))
    (second_attempt,) = agent.work.list_running()
    assert not second_attempt.stopped.is_set()
    agent.acknowledge(lost=["a"])
    assert not second_attempt.stopped.is_set()
    agent.acknowledges = True
    _send_heartbeat(cast(Agent, agent))
    assert second_attempt.is_lost
