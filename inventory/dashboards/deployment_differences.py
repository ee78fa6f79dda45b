"""Differences between the task definitions of two deployments, line by line."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from deployments.models import AwsCall, StageExecution
from steps.states import CallState
from web.text_diffs import TextDiff, compare_texts

REGISTER_OPERATION: Final = "RegisterTaskDefinition"
_CHANGED_MARKER: Final = "(changed)"
# Fields that differ in each execution.
_IGNORED_FIELDS: Final = ("tags",)


@dataclass(frozen=True)
class DeploymentDifference:
    """Two deployments compared; `diff` is None where one registered no task definition."""

    old: StageExecution
    new: StageExecution
    diff: TextDiff | None
    missing: tuple[StageExecution, ...]


def compare_deployments(old: StageExecution, new: StageExecution) -> DeploymentDifference:
    """Compare the registered task definitions in one query; values of environments are hidden."""
    calls = {
        row.step.stage_id: row
        for row in AwsCall.objects.filter(
            operation=REGISTER_OPERATION,
            state=CallState.ANSWERED,
            phase__startswith="start",
            step__stage__in=(old.pk, new.pk),
        )
        .select_related("step")
        .order_by("pk")
    }
    missing = tuple(row for row in (old, new) if row.pk not in calls)
    if missing:
        return DeploymentDifference(old, new, None, missing)
    old_call, new_call = calls[old.pk], calls[new.pk]
    marked = _mark_changed_values(
        new_call.preview, _read_environment_values(old_call), _read_environment_values(new_call)
    )
    return DeploymentDifference(
        old, new, compare_texts(_render_definition(old_call.preview), _render_definition(marked)), ()
    )


def _read_environment_values(call: AwsCall) -> dict[tuple[str, str], str]:
    """Return the environment values by container and name."""
    parameters = json.loads(call.parameters)
    return {
        (str(container.get("name")), str(item.get("name"))): str(item.get("value"))
        for container, item in _list_environments(parameters)
    }


def _list_environments(definition: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    for container in definition.get("containerDefinitions") or ():
        for item in container.get("environment") or ():
            yield container, item


def _mark_changed_values(
    preview: Mapping[str, Any],
    old_values: Mapping[tuple[str, str], str],
    new_values: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    """Mark each hidden value that has changed."""
    marked: dict[str, Any] = json.loads(json.dumps(preview))
    for container, item in _list_environments(marked):
        key = (str(container.get("name")), str(item.get("name")))
        if key in old_values and old_values[key] != new_values.get(key):
            item["value"] = f"{item.get('value')} {_CHANGED_MARKER}"
    return marked


def _render_definition(definition: Mapping[str, Any]) -> str:
    fields = {key: value for key, value in definition.items() if key not in _IGNORED_FIELDS}
    return yaml.safe_dump(fields, sort_keys=True, allow_unicode=True, default_flow_style=False)
