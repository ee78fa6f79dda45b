"""What a preview said beside what a run recorded, call by call."""

import re
from collections.abc import Mapping
from typing import Any

from deployments.models import AwsCall, Execution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.fixtures.engine_driver import Drive

_PLACEHOLDER = re.compile(r"<[^<>+][^<>]*>")


def preview(drive: Drive, tag: str = "1.27") -> dict[str, Any]:
    preview_details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag=tag)
    assert isinstance(preview_details, PreviewDetails)
    return preview_details.to_json()


def planned(document: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [
        (step["identifier"], f"{call['service']}:{call['operation']}", call["params"])
        for step in document["steps"]
        for call in step["calls"]
    ]


def recorded(execution: Execution) -> list[tuple[str, str, Any]]:
    calls = AwsCall.objects.filter(execution=execution, is_write=True).order_by("pk").select_related("step")
    return [(call.step.identifier, f"{call.service}:{call.operation}", call.preview) for call in calls]


def assert_same(planned_calls: list[tuple[str, str, Any]], done: list[tuple[str, str, Any]]) -> None:
    """Compare call by call; each placeholder must stand for one value."""
    assert [call[:2] for call in planned_calls] == [call[:2] for call in done]
    stands_for: dict[str, Any] = {}
    for (*_, expected), (*place, actual) in zip(planned_calls, done, strict=True):
        _compare(expected, actual, stands_for, "/".join(map(str, place)))


def _compare(expected: Any, actual: Any, stands_for: dict[str, Any], where: str) -> None:
    if isinstance(expected, str) and _PLACEHOLDER.fullmatch(expected):
        assert stands_for.setdefault(expected, actual) == actual, where
    elif isinstance(expected, Mapping):
        assert expected.keys() == actual.keys(), where
        for key, value in expected.items():
            _compare(value, actual[key], stands_for, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(actual), where
        for number, value in enumerate(expected):
            _compare(value, actual[number], stands_for, f"{where}.{number}")
    else:
        assert expected == actual, where
