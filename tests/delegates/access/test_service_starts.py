"""What ECS reports about a service whose tasks do not run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from aws.errors import Denied, NotFound
from delegates.access.lookup_options import fetch_options, validate_subject
from delegates.models import LookupRequest
from tests.aws.fake_caller import ListedCaller
from web.http.problems import BadInput

Kind = LookupRequest.Kind
SUBJECT = "main/eu-service/eu-task"
NO_TASKS = {"taskArns": []}


def build_service(*messages: str) -> dict[str, Any]:
    events = [
        {"id": str(number), "createdAt": datetime(2026, 1, 1, 12, 30, tzinfo=UTC), "message": message}
        for number, message in enumerate(messages)
    ]
    service = {"serviceName": "eu-service", "status": "ACTIVE", "desiredCount": 1, "events": events}
    return {"services": [service]}


def build_task(minute: int, reason: str, code: str = "TaskFailedToStart", **container: Any) -> dict[str, Any]:
    return {
        "taskArn": "arn:aws:ecs:us-east-1:1:task/main/1",
        "lastStatus": "STOPPED",
        "stopCode": code,
        "stoppedReason": reason,
        "stoppedAt": datetime(2026, 1, 1, 12, minute, tzinfo=UTC),
        "containers": [{"name": "harness-delegate", **container}],
    }


def test_failures_are_those_of_tasks_and_events_newest_first() -> None:
    event = (
        "(service eu-service) failed to launch a task with (error ECS was unable to assume the role 'arn')."
    )
    tasks = [
        build_task(20, "CannotPullContainerError: x"),
        build_task(40, "Essential container in task exited", exitCode=1),
        build_task(50, "Scaling activity initiated by deployment", "ServiceSchedulerInitiated"),
    ]
    caller = ListedCaller(
        build_service("(service eu-service) has started 1 tasks", event),
        {"taskArns": ["a"]},
        {"tasks": tasks},
    )
    (start,) = fetch_options(Kind.STARTS, caller, SUBJECT)
    assert (start["exists"], start["desired"], start["running"]) == (True, 1, 0)
    assert caller.calls[1][2] == {"cluster": "main", "family": "eu-task", "desiredStatus": "STOPPED"}
    assert [(failure["source"], failure["reason"]) for failure in start["failures"]] == [
        ("task", "Essential container in task exited. Container harness-delegate exited with code 1"),
        ("event", event),
        ("task", "CannotPullContainerError: x"),
    ]
    assert start["failures"][0]["at"] == "2026-01-01T12:40:00+00:00"


def test_events_before_a_steady_state_are_over() -> None:
    steady, full = (
        "(service x) has reached a steady state.",
        "(service x) Capacity is unavailable at this time",
    )
    caller = ListedCaller(build_service(steady, full), NO_TASKS)
    assert fetch_options(Kind.STARTS, caller, SUBJECT)[0]["failures"] == ()


def test_hostile_reasons_are_cut_and_printable() -> None:
    reason = "CannotPull\x1b[31m\0" + "x" * 10_000
    caller = ListedCaller(build_service(), {"taskArns": ["a"]}, {"tasks": [build_task(1, reason)]})
    (failure,) = fetch_options(Kind.STARTS, caller, SUBJECT)[0]["failures"]
    assert len(failure["reason"]) == 600
    assert failure["reason"].isprintable()


def test_tasks_of_a_deleted_service_still_tell_why() -> None:
    task = build_task(1, "CannotPullContainerError: x")
    caller = ListedCaller({"services": []}, {"taskArns": ["a"]}, {"tasks": [task]})
    (start,) = fetch_options(Kind.STARTS, caller, SUBJECT)
    assert not start["exists"]
    assert [failure["reason"] for failure in start["failures"]] == ["CannotPullContainerError: x"]


def test_a_missing_cluster_has_no_services() -> None:
    caller = ListedCaller(NotFound("ClusterNotFoundException", "none"))
    assert fetch_options(Kind.STARTS, caller, SUBJECT) == []


def test_a_refusal_is_raised() -> None:
    with pytest.raises(Denied):
        fetch_options(Kind.STARTS, ListedCaller(Denied("AccessDeniedException", "no")), SUBJECT)


def test_the_subject_is_a_cluster_and_a_service() -> None:
    assert validate_subject(Kind.STARTS, SUBJECT) == SUBJECT
    for subject in ("", "main/a", "main/a/b/c", "main/a b/c", "ä/b/c", f"{'c' * 250}/{'s' * 250}/f"):
        with pytest.raises(BadInput):
            validate_subject(Kind.STARTS, subject)
