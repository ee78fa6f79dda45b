"""Answers that do not fit their tasks end them as failed tasks, and say what was wrong where."""

import json
from typing import Any

import pytest

from delegates.models import AllowlistEntry, BlocklistEntry, DelegateTask
from tests.delegates.protocol.fake_agents import Agent, offer_task

pytestmark = pytest.mark.django_db

Json = dict[str, Any]
CALL = {"service": "ecs", "operation": "DescribeServices"}
FILES = {"url": "https://git.example.com/x.git", "paths": ["a"]}
IMAGES = {"url": "https://registry.example.com", "repository": "web"}
SCRIPT, HTTP = {"script": "true"}, {"url": "https://example.com"}
# The kind, what is asked, the result that fits, what is changed in it, and what is said of that.
WRONG: list[tuple[str, Json, Json, Json, str]] = [
    (
        "shell",
        SCRIPT,
        {"exit_code": 0, "outputs": {"A": "b"}},
        {"outputs": 5},
        "result.outputs must be an object",
    ),
    (
        "shell",
        SCRIPT,
        {"exit_code": 0},
        {"exit_code": "0"},
        "result.exit_code must be a whole number, and is text",
    ),
    ("shell", SCRIPT, {"exit_code": 0}, {"exit_code": True}, "and is true or false"),
    (
        "shell",
        SCRIPT,
        {"exit_code": 0},
        {"outputs": {"A": 1}},
        "result.outputs.A must be text, and is a number",
    ),
    ("shell", SCRIPT, {"exit_code": 0}, {"exit_code": 3}, "status is SUCCEEDED, and result says"),
    ("terraform", {}, {"exit_code": 0}, {"outputs": {"url": "x"}}, "result.outputs.url must be an object"),
    (
        "terraform",
        {},
        {"exit_code": 0, "begun": True},
        {"begun": "yes"},
        "result.begun must be true or false",
    ),
    (
        "terraform",
        {},
        {"exit_code": 0, "errors": []},
        {"ended": "STOPPED"},
        "status is SUCCEEDED, and result says",
    ),
    (
        "http",
        HTTP,
        {"status": 200, "body": ""},
        {"status": None},
        "result.status must be a whole number, and is null",
    ),
    (
        "http",
        HTTP,
        {"status": 200, "headers": {}},
        {"headers": []},
        "result.headers must be an object, and is a list",
    ),
    (
        "git",
        FILES,
        {"commit": "c", "files": {"a": "b"}},
        {"files": {"a": None}},
        "result.files.a must be text",
    ),
    (
        "git",
        FILES | {"refs": True},
        {"branches": [], "tags": ["v1"]},
        {"tags": {}},
        "result.tags must be a list",
    ),
    (
        "docker_registry",
        IMAGES,
        {"tags": ["1"], "is_cut": False},
        {"tags": [1]},
        "result.tags.0 must be text",
    ),
    (
        "docker_registry",
        IMAGES | {"tag": "1"},
        {"digest": "sha256:0"},
        {"digest": 0},
        "result.digest must be text",
    ),
    (
        "docker_registry",
        {"url": "https://registry.example.com", "catalog": True},
        {"repositories": [{"repositoryName": "web"}]},
        {"repositories": ["web"]},
        "result.repositories.0 must be an object",
    ),
    ("check", HTTP, {"ok": True, "address": "10.0.0.1"}, {"address": []}, "result.address must be text"),
    ("aws", CALL, {"services": [], "failures": []}, {"services": {}}, "result.services must be a list"),
    (
        "aws",
        CALL,
        {"services": [{"runningCount": 1, "new": {}}]},
        {"services": [{"runningCount": 1}, {"runningCount": "1"}]},
        "result.services[1].runningCount must be a whole number, and is text",
    ),
    (
        "aws",
        CALL,
        {"services": [{"createdAt": "2026-01-01T00:00:00+00:00"}]},
        {"services": [None]},
        "and is null",
    ),
    *(
        (
            "aws",
            CALL,
            {"services": [{"createdAt": "2026-01-01T00:00:00+00:00"}]},
            {"services": [{"createdAt": time}]},
            "result.services[0].createdAt must be a date and time",
        )
        for time in ("yesterday", "2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", 1767225600)
    ),
    (
        "aws",
        {"service": "s3", "operation": "FetchObjects"},
        {"files": {"a": "b"}, "versions": {"a": "1"}},
        {"files": ["a"]},
        "result.files must be an object, and is a list",
    ),
]


def complete_task(agent: Agent, kind: str, payload: Json, **reply: Any) -> DelegateTask:
    task = offer_task(agent, kind=kind, payload=json.dumps(payload))
    (assignment,) = agent.acquire()
    agent.complete(assignment, **reply)
    task.refresh_from_db()
    return task


@pytest.mark.parametrize(("kind", "payload", "valid_result", "change", "message"), WRONG)
def test_what_fits_is_taken_and_what_does_not_fails_with_its_place(
    agent: Agent, kind: str, payload: Json, valid_result: Json, change: Json, message: str
) -> None:
    assert complete_task(agent, kind, payload, result=valid_result).status == "SUCCEEDED"
    task = complete_task(agent, kind, payload, result=valid_result | change)
    assert (task.status, task.result) == ("FAILED", "")
    assert (task.error or {})["code"] == "BadAnswer"
    assert task.reason.startswith("The delegate eu on host-1 returned a result that does not match the task")
    assert DelegateTask.Kind(kind).label in task.reason
    assert message in task.reason


@pytest.mark.parametrize(
    ("status", "result", "error", "message"),
    [
        ("SUCCEEDED", None, None, "result must be an object, and is null"),
        ("SUCCEEDED", [], None, "result must be an object, and is a list"),
        ("FAILED", None, "no", "error must be an object, and is text"),
        ("FAILED", None, {"message": 7}, "error.message must be text, and is a number"),
        ("FAILED", None, {"capability": "yes"}, "error.capability must be true or false"),
        # It would count as a script that ended well.
        ("FAILED", None, {"code": "ScriptFailed"}, "result must be an object, and is null"),
        ("FAILED", {"exit_code": 0}, {"code": "ScriptFailed"}, "result says that the work succeeded"),
    ],
)
def test_whatever_an_answer_is_made_of(
    agent: Agent, status: str, result: object, error: object, message: str
) -> None:
    task = complete_task(agent, "shell", SCRIPT, status=status, result=result, error=error)
    assert task.status == "FAILED"
    assert message in task.reason
    # It says nothing of what this delegate can do.
    assert not AllowlistEntry.objects.exists()
    assert not BlocklistEntry.objects.exists()


def test_an_answer_shows_no_value_and_no_control_character(agent: Agent) -> None:
    result = {"exit_code": 0, "outputs": {"A\x1b[31m" + "x" * 1000: ["hunter2"]}}
    reason = complete_task(agent, "shell", SCRIPT, result=result).reason
    assert "hunter2" not in reason
    assert "\x1b" not in reason
    assert len(reason) < 500


def test_an_operation_that_this_slipway_does_not_know_is_left_to_who_asked(agent: Agent) -> None:
    for payload in ({"service": "ecs", "operation": "New"}, {"service": "new", "operation": "List"}, {}):
        assert complete_task(agent, "aws", payload, result={"anything": 5}).status == "SUCCEEDED"
