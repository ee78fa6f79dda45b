"""What a preview says is what a run then does: the same writes, step by step."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from connectors.models import FileNode
from deployments.models import Call, Execution, Pipeline
from deployments.previews import preview_pipeline
from tests.deployments.driving import Drive

pytestmark = [pytest.mark.django_db(transaction=True)]

# A strategy is one row: the demo pipeline that shows it.
PIPELINES = ["rolling_demo", "canary_demo"]
_PLACEHOLDER = re.compile(r"<[^<>+][^<>]*>")


def preview(drive: Drive, tag: str = "1.27") -> dict[str, Any]:
    return preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag=tag)


def planned(found: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [
        (step["identifier"], f"{call['service']}:{call['operation']}", call["params"])
        for step in found["steps"]
        for call in step["calls"]
    ]


def recorded(execution: Execution) -> list[tuple[str, str, Any]]:
    calls = Call.objects.filter(execution=execution, is_write=True).order_by("pk").select_related("step")
    return [(call.step.identifier, f"{call.service}:{call.operation}", call.preview) for call in calls]


def assert_same(said: list[tuple[str, str, Any]], done: list[tuple[str, str, Any]]) -> None:
    """Call by call; each placeholder must stand for one value, whatever that is."""
    assert [one[:2] for one in said] == [one[:2] for one in done]
    stands_for: dict[str, Any] = {}
    for (*_, expected), (*place, found) in zip(said, done, strict=True):
        _compare(expected, found, stands_for, "/".join(map(str, place)))


def _compare(expected: Any, found: Any, stands_for: dict[str, Any], where: str) -> None:
    if isinstance(expected, str) and _PLACEHOLDER.fullmatch(expected):
        assert stands_for.setdefault(expected, found) == found, where
    elif isinstance(expected, Mapping):
        assert expected.keys() == found.keys(), where
        for key, value in expected.items():
            _compare(value, found[key], stands_for, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(found), where
        for number, value in enumerate(expected):
            _compare(value, found[number], stands_for, f"{where}.{number}")
    else:
        assert expected == found, where


@pytest.mark.parametrize("identifier", PIPELINES)
def test_a_run_sends_the_writes_that_its_preview_lists(drive: Drive, identifier: str) -> None:
    drive.pipeline = Pipeline.objects.get(identifier=identifier)
    for tag in ("1.27", "1.28"):
        before = drive.mark()
        said = preview(drive, tag)
        assert drive.effects(before) == []
        assert [step["failure"] for step in said["steps"]] == [None] * len(said["steps"])
        execution = drive.run(tag)
        assert execution.status == "SUCCESS"
        assert planned(said)
        assert_same(planned(said), recorded(execution))


def test_a_preview_writes_no_row(drive: Drive) -> None:
    preview(drive)
    assert not Execution.objects.exists()
    assert not Call.objects.exists()
    assert Pipeline.objects.get(pk=drive.pipeline.pk).next_number == 1


def test_a_preview_shows_what_differs_and_hides_the_values_of_environments(drive: Drive) -> None:
    _edit_task_definition("environment: []", "environment: [{name: TOKEN, value: s3cret-one}]")
    drive.run("1.27")
    _edit_task_definition("s3cret-one", "s3cret-two")
    (step,) = preview(drive, "1.28")["steps"]
    assert step["diff"].startswith("--- fargate-task-definition:1\n+++ fargate-task-definition (new)\n@@")
    signs = [line for line in step["diff"].splitlines() if line.startswith(("+ ", "- "))]
    assert {line.replace(" ", "") for line in signs} == {
        '-"value":"•••"',
        '+"value":"•••(changed)"',
        '-"image":"library/nginx:1.27",',
        '+"image":"library/nginx:1.28",',
    }
    assert "s3cret" not in json.dumps(step)


def test_a_preview_tells_counts_in_words_and_the_permissions_of_each_step(drive: Drive) -> None:
    (created,) = preview(drive)["steps"]
    assert "Service myapp is created with 1 task." in created["changes"]
    assert {"ecs:CreateService", "ecs:RegisterTaskDefinition", "iam:PassRole", "ecs:TagResource"} <= {
        *created["permissions"]
    }
    assert "ecs:UpdateService" not in created["permissions"]
    drive.run("1.27")
    (updated,) = preview(drive, "1.28")["steps"]
    assert "Service myapp keeps its desired count of 1." in updated["changes"]


def test_a_preview_names_the_permission_that_is_missing(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServices", count=1)
    (step,) = preview(drive)["steps"]
    assert step["failure"]["action"] == "ecs:DescribeServices"
    assert step["calls"] == []


def test_a_preview_refuses_a_bad_manifest_as_a_run_would(drive: Drive) -> None:
    _edit_task_definition("networkMode: awsvpc", "networkMod: awsvpc")
    (step,) = preview(drive)["steps"]
    assert step["failure"]["code"] == "BAD_MANIFEST"
    assert "networkMod" in step["failure"]["message"]


def _edit_task_definition(old: str, new: str) -> None:
    node = FileNode.objects.get(path="/ECS Tutorial/RegisterTaskDefinitionRequest.yaml")
    assert old in node.content, node.content
    node.content = node.content.replace(old, new)
    node.save()
