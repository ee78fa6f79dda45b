"""`slipway run --follow` from start to end: live log, exit codes, Ctrl-C."""

import json
import signal

import pytest

from deployments.models import StepExecution
from tests.fixtures.command_line import CommandLine
from tests.fixtures.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.timeout(300)
def test_a_run_is_followed_to_its_end(deployer_line: CommandLine) -> None:
    answer = deployer_line.run("run", "rolling_demo", "--tag", "1.28", "--follow", seconds=150)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "rolling_demo#1 SUCCESS, outcome COMPLETED" in answer.stdout
    assert "==> Deploy to dev / ECS rolling deploy: SUCCESS" in answer.stdout
    assert "reached steady state" in answer.stdout

    crashed = deployer_line.run("run", "rolling_demo", "--tag", "crash", "--follow", "--json", seconds=150)

    events = [json.loads(line) for line in crashed.stdout.splitlines()]
    assert crashed.returncode == 11
    numbers = [event["number"] for event in events if event["event"] == "log"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert events[-1]["event"] == "result"
    assert events[-1]["exit_code"] == 11
    assert "exited with code 1" in events[-1]["failure"]["message"]
    assert events[-1]["failure"]["last_output"]


@pytest.mark.timeout(300)
def test_ctrl_c_aborts_if_the_job_says_so(deployer_line: CommandLine) -> None:
    command = ("run", "rolling_demo", "--tag", "slow", "--follow", "--on-interrupt", "abort")
    with deployer_line.running(*command) as process:
        waiting = StepExecution.objects.filter(status="ASYNC_WAITING")
        wait_until(waiting.exists, "the deployment", 120)

        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)

    assert process.returncode == 12, output + errors
    assert "rolling_demo#1 ABORTED" in output
