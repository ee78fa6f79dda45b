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
_CHANGED_MARKER: Final = "(another value)"
# What only says which run it was.
_IGNORED_FIELDS: Final = ("tags",)


@dataclass(frozen=True)
class DeploymentDifference:
    """Two deployments beside each other; `diff` is None where one of them registered nothing."""

    old: StageExecution
    new: StageExecution
    diff: TextDiff | None
    missing: tuple[StageExecution, ...]


def compare_deployments(old: StageExecution, new: StageExecution) -> DeploymentDifference:
    """Compare what two deployments registered; one query. Values of environments are never in it."""
    calls = {
        one.step.stage_id: one
        for one in AwsCall.objects.filter(
            operation=REGISTER_OPERATION,
            state=CallState.ANSWERED,
            phase__startswith="start",
            step__stage__in=(old.pk, new.pk),
        )
        .select_related("step")
        .order_by("pk")
    }
    missing = tuple(one for one in (old, new) if one.pk not in calls)
    if missing:
        return DeploymentDifference(old, new, None, missing)
    before, after = calls[old.pk], calls[new.pk]
    told = _mark_changed_values(
        after.preview, _read_environment_values(before), _read_environment_values(after)
    )
    return DeploymentDifference(
        old, new, compare_texts(_render_definition(before.preview), _render_definition(told)), ()
    )


def _read_environment_values(call: AwsCall) -> dict[tuple[str, str], str]:
    """The values of environments, by container and name."""
    read = json.loads(call.parameters)
    return {
        (str(container.get("name")), str(item.get("name"))): str(item.get("value"))
        for container, item in _list_environments(read)
    }


def _list_environments(definition: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    for container in definition.get("containerDefinitions") or ():
        for item in container.get("environment") or ():
            yield container, item


def _mark_changed_values(
    preview: Mapping[str, Any], before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """The same with a word beside each hidden value that is another one than before."""
    told: dict[str, Any] = json.loads(json.dumps(preview))
    for container, item in _list_environments(told):
        key = (str(container.get("name")), str(item.get("name")))
        if key in before and before[key] != after.get(key):
            item["value"] = f"{item.get('value')} {_CHANGED_MARKER}"
    return told


def _render_definition(definition: Mapping[str, Any]) -> str:
    compared = {key: value for key, value in definition.items() if key not in _IGNORED_FIELDS}
    return yaml.safe_dump(compared, sort_keys=True, allow_unicode=True, default_flow_style=False)
