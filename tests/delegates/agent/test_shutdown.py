"""The agent ends whenever it is told to."""

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from delegates.agent.__main__ import drain_and_deregister
from delegates.agent.agent import Agent
from delegates.agent.identity import InstanceIdentity
from delegates.agent.isolation import Isolation, IsolationLevel
from delegates.agent.logs.delegate_log import LogUploadBuffer
from delegates.agent.settings import read_environment
from delegates.agent.tasks import parse_task
from tests.delegates.agent.fake_servers import start_http_server
from tests.fixtures.processes import ROOT, wait_until
from tests.ports import free_port

# Before it listens for signals, one would simply end it.
PROGRAM = """
from delegates.agent import __main__ as program
from tests.fixtures.signals import signal_under_lock

listen = program.install_signal_handlers
program.install_signal_handlers = lambda agent: (listen(agent), signal_under_lock())
program.run()
"""


@pytest.mark.timeout(90)
def test_a_signal_in_the_middle_of_another_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HARNESS_ACCOUNT_ID": "account",
        "HARNESS_TOKEN": "00" * 16,
        "HARNESS_URL": f"http://127.0.0.1:{free_port()}",
        "SLIPWAY_DELEGATE_HOME": str(tmp_path),
        "SLIPWAY_DELEGATE_PORT": "0",
    }
    log = tmp_path / "delegate.log"
    agent = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment)
    try:
        wait_until(lambda: log.exists() and "health on port" in log.read_text(), "the agent's start")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(30) == 0
    finally:
        agent.kill()
        agent.wait()


def test_an_agent_without_a_session_registers_to_answer_its_tasks_before_it_ends(tmp_path: Path) -> None:
    paths: list[str] = []

    def answer(request: Any) -> tuple[int, dict[str, str], bytes]:
        paths.append(request.path.removeprefix("/agent/v1/"))
        return 200, {}, json.dumps({"session": "s"} if paths[-1] == "register" else {}).encode()

    with start_http_server(answer) as url:
        environment = {"HARNESS_ACCOUNT_ID": "account", "HARNESS_TOKEN": "00" * 16, "HARNESS_URL": url}
        settings = read_environment({**environment, "SLIPWAY_DELEGATE_HOME": str(tmp_path)})
        identity = InstanceIdentity("host/10.0.0.1", "host", "10.0.0.1")
        isolation = Isolation(IsolationLevel.NONE)
        agent = Agent(settings, identity, ssl.create_default_context(), LogUploadBuffer(), isolation)
        held_task = agent.work.add(parse_task({"id": "t", "kind": "shell", "fence": 1, "params": {}}, 0))
        agent.draining.set()
        thread = threading.Thread(target=drain_and_deregister, args=(agent,), daemon=True)
        thread.start()
        wait_until(agent.registered.is_set, "a session")
        agent.work.remove(held_task, failed=False)
        thread.join(10)
    assert paths == ["register", "deregister"]
