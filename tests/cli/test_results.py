"""The exit code and the words of a result."""

from datetime import UTC, datetime

import pytest

from cli.errors import EXIT_CODE_MEANINGS, ExitCode
from cli.watch.results import (
    OVER,
    describe_failure,
    describe_result,
    format_duration,
    get_duration,
    get_exit_code,
)
from steps.states import TERMINAL_STATUSES


@pytest.mark.parametrize(
    ("status", "outcome", "code"),
    [
        ("SUCCESS", "COMPLETED", ExitCode.SUCCESS),
        ("IGNORE_FAILED", None, ExitCode.SUCCESS),
        ("FAILED", None, ExitCode.FAILED),
        ("FAILED", "SUPERSEDED", ExitCode.FAILED),
        ("FAILED", "ROLLED_BACK", ExitCode.ROLLED_BACK),
        ("FAILED", "ROLLED_BACK_BY_AWS", ExitCode.ROLLED_BACK),
        ("FAILED", "TIMED_OUT", ExitCode.TIMED_OUT),
        ("ROLLED_BACK", "ROLLED_BACK", ExitCode.ROLLED_BACK),
        ("ABORTED", "ROLLED_BACK", ExitCode.ABORTED),
        ("APPROVAL_REJECTED", None, ExitCode.REJECTED),
        ("EXPIRED", None, ExitCode.TIMED_OUT),
        ("OF_A_LATER_VERSION", None, ExitCode.UNKNOWN),
    ],
)
def test_each_result_has_its_exit_code(status: str, outcome: str | None, code: ExitCode) -> None:
    assert get_exit_code({"status": status, "outcome": outcome}) == code


def test_the_statuses_of_an_end_are_those_of_the_engine() -> None:
    assert {str(status) for status in TERMINAL_STATUSES} == OVER


def test_every_exit_code_is_explained() -> None:
    assert set(EXIT_CODE_MEANINGS) == set(ExitCode)


def test_a_result_names_execution_outcome_and_duration() -> None:
    execution = {
        "pipeline": {"identifier": "shop"},
        "number": 3,
        "status": "FAILED",
        "outcome": "ROLLED_BACK",
        "started_at": "2026-01-01T10:00:00Z",
        "ended_at": "2026-01-01T10:03:07Z",
    }

    assert describe_result(execution) == "shop#3 FAILED, outcome ROLLED_BACK, after 3m 07s"


def test_a_failure_names_its_cause_and_the_last_output() -> None:
    failure = {
        "code": "CONTAINER_EXITED",
        "message": "Container web exited with code 1",
        "step": "deploy",
        "container": "web",
        "exit_code": 1,
        "last_output": ["no such table", "bye"],
        "advice": "Read the last lines of its log.",
    }

    assert list(describe_failure({"failure": failure})) == [
        "Cause: Container web exited with code 1 (CONTAINER_EXITED)",
        "  step deploy, container web, exit code 1",
        "  What to do: Read the last lines of its log.",
        "Last output of web:",
        "  | no such table",
        "  | bye",
    ]
    assert list(describe_failure({"failure": None})) == []


def test_a_duration_never_is_negative() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    assert get_duration({"started_at": "2026-01-01T00:00:05Z", "ended_at": None}, now) == 0
    assert get_duration({"started_at": None}, now) == 0
    assert [format_duration(seconds) for seconds in (5.9, 65, 7500)] == ["5s", "1m 05s", "2h 05m"]
