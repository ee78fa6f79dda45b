"""The agent ends whenever it is told to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
