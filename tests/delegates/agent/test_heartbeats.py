"""Heartbeats, and the performance line of the log."""

import re
import threading
from types import SimpleNamespace
from typing import cast

from delegates.agent.agent import Agent, LoadMeter
from delegates.agent.heartbeats import build_heartbeat, format_performance
from delegates.agent.tasks import HeldTasks
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
