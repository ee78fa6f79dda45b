"""`slipway run` starts one run, and the log of an ended one gives its exit code."""

import json

import pytest

from deployments.models import Execution
from tests.fixtures.command_line import CommandLine
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_is_started_once_for_an_idempotency_key(deployer_line: CommandLine) -> None:
    command = ("run", "rolling_demo", "--tag", "1.28", "--idempotency-key", "build 7", "--json")

    first, second = (deployer_line.run(*command) for _ in range(2))

    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == json.loads(second.stdout)
    execution = Execution.objects.get()
    assert (execution.artifact["tag"], execution.started_by.username) == ("1.28", "deployer")  # type: ignore[union-attr]
    assert json.loads(first.stdout)["url"].endswith(f"/deployments/{execution.pk}/")


def test_a_crashed_run_exits_with_its_code_and_names_the_cause(
    deployer_line: CommandLine, drive: Drive
) -> None:
    drive.run("1.27")
    drive.run("crash")

    answer = deployer_line.run("logs", "rolling_demo#2", "--follow")

    assert answer.returncode == 11, answer.stderr
    assert "rolling_demo#2 FAILED, outcome ROLLED_BACK" in answer.stdout
    assert "exited with code 1" in answer.stdout
    assert "Last output of" in answer.stdout


def test_an_unknown_pipeline_and_a_refused_input_are_explained(deployer_line: CommandLine) -> None:
    missing = deployer_line.run("run", "nothing")
    refused = deployer_line.run("run", "rolling_demo", "--input", "color=red")

    assert (missing.returncode, refused.returncode) == (5, 1)
    assert "no pipeline nothing" in missing.stderr
    assert "inputs.color: unknown variable" in refused.stderr
    assert not Execution.objects.exists()
