"""`slipway rehearse` shows the steps of a rehearsal, and its exit code is the result."""

import inspect
from typing import Any

import pytest

from cli.commands.rehearsals import get_rehearsal_exit_code, print_rehearsal, rehearse
from cli.errors import ExitCode
from deployments.models import Execution
from deployments.rehearsal.rehearsals import BEHAVIORS
from tests.fixtures.command_line import CommandLine
from tests.fixtures.engine_driver import Drive


def _build_rehearsal(status: str) -> dict[str, Any]:
    step = {
        "name": "Deploy",
        "stage": "production",
        "status": status,
        "reason": "The task exited with code 1.",
        "log": [{"at": 8, "level": "error", "text": "Task \x1b[31mstopped"}],
    }
    return {
        "status": status,
        "reason": step["reason"],
        "steps": [step],
        "denied": ["ecs:CreateService"],
        "notes": ["Subnets are assumed to exist."],
        "seconds": 12,
    }


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("SUCCEEDED", ExitCode.SUCCESS),
        ("FAILED", ExitCode.FAILED),
        ("UNKNOWN", ExitCode.UNKNOWN),
        ("OF_A_LATER_VERSION", ExitCode.UNKNOWN),
    ],
)
def test_each_result_of_a_rehearsal_has_its_exit_code(status: str, code: ExitCode) -> None:
    assert get_rehearsal_exit_code(_build_rehearsal(status)) == code


def test_the_log_has_rehearsed_seconds_and_the_end_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    print_rehearsal("shop", _build_rehearsal("FAILED"))
    assert capsys.readouterr().out.splitlines() == [
        "==> production / Deploy: FAILED",
        "    8 s  Task stopped",
        "Denied in the sandbox, as IAM's simulation denies it: ecs:CreateService",
        "Note: Subnets are assumed to exist.",
        "Rehearsal of shop FAILED, after 12 rehearsed seconds",
        "Cause: The task exited with code 1.",
    ]


def test_the_help_names_each_behavior() -> None:
    option = inspect.signature(rehearse).parameters["behavior"].annotation.__metadata__[0]
    assert [name for name in BEHAVIORS if name not in option.help] == []


@pytest.mark.django_db(transaction=True)
def test_a_rehearsed_crash_exits_like_a_failed_run_and_starts_none(
    deployer_line: CommandLine, drive: Drive
) -> None:
    drive.run("1.27")
    before = drive.mark()

    answer = deployer_line.run("rehearse", "rolling_demo", "--tag", "1.28", "--behavior", "crashes")

    assert answer.returncode == 10, answer.stderr
    assert "Rehearsal of rolling_demo FAILED" in answer.stdout
    assert "exited with code 1" in answer.stdout
    assert drive.effects(before) == []
    assert Execution.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_rehearsed_rollback_asks_nothing_and_exits_with_its_result(
    deployer_line: CommandLine, drive: Drive
) -> None:
    drive.run("1.27")
    drive.run("1.28")
    before = drive.mark()

    answer = deployer_line.run("rollback", "rolling_demo#2", "--rehearse")

    assert answer.returncode == 0, answer.stderr
    assert "A rollback undoes, in this order:" in answer.stdout
    assert "Rehearsal of the rollback of rolling_demo#2 SUCCEEDED" in answer.stdout
    assert drive.effects(before) == []
