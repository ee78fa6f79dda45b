"""What a preview said beside what a run recorded, call by call."""

import re
from collections.abc import Mapping
from typing import Any

from deployments.models import AwsCall, Execution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.fixtures.engine_driver import Drive

_PLACEHOLDER = re.compile(r"<[^<>+][^<>]*>")


def load_preview(drive: Drive, tag: str = "1.27") -> dict[str, Any]:
    preview_details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag=tag)
    assert isinstance(preview_details, PreviewDetails)
    return preview_details.to_json()


def list_planned_calls(document: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [
        (step["identifier"], f"{call['service']}:{call['operation']}", call["params"])
        for step in document["steps"]
        for call in step["calls"]
    ]


def list_recorded_calls(execution: Execution) -> list[tuple[str, str, Any]]:
    calls = AwsCall.objects.filter(execution=execution, is_write=True).order_by("pk").select_related("step")
    return [(call.step.identifier, f"{call.service}:{call.operation}", call.preview) for call in calls]


def assert_same(
    planned_calls: list[tuple[str, str, Any]], recorded_calls: list[tuple[str, str, Any]]
) -> None:
    """Compare call by call; each placeholder must stand for one value."""
    assert [call[:2] for call in planned_calls] == [call[:2] for call in recorded_calls]
    placeholder_values: dict[str, Any] = {}
    for (*_, expected), (*path, actual_params) in zip(planned_calls, recorded_calls, strict=True):
        _compare(expected, actual_params, placeholder_values, "/".join(map(str, path)))


def _compare(expected: Any, actual: Any, placeholder_values: dict[str, Any], path: str) -> None:
    if isinstance(expected, str) and _PLACEHOLDER.fullmatch(expected):
        assert placeholder_values.setdefault(expected, actual) == actual, path
    elif isinstance(expected, Mapping):
        assert expected.keys() == actual.keys(), path
        for key, value in expected.items():
            _compare(value, actual[key], placeholder_values, f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(actual), path
        for number, value in enumerate(expected):
            _compare(value, actual[number], placeholder_values, f"{path}.{number}")
    else:
        assert expected == actual, path
