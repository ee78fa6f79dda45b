"""What differs between two deployments: their task definitions as they were registered, line by line."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from deployments.models import Call, StageExecution
from steps.states import CallState
from web.text_diff import Diff, diff

REGISTER: Final = "RegisterTaskDefinition"
_CHANGED: Final = "(another value)"
# What only says which run it was.
_NOT_COMPARED: Final = ("tags",)


@dataclass(frozen=True)
class Difference:
    """Two deployments beside each other; `diff` is None where one of them registered nothing."""

    old: StageExecution
    new: StageExecution
    diff: Diff | None
    missing: tuple[StageExecution, ...]


def difference(old: StageExecution, new: StageExecution) -> Difference:
    """Compare what two deployments registered; one query. Values of environments are never in it."""
    calls = {
        one.step.stage_id: one
        for one in Call.objects.filter(
            operation=REGISTER,
            state=CallState.ANSWERED,
            phase__startswith="start",
            step__stage__in=(old.pk, new.pk),
        )
        .select_related("step")
        .order_by("pk")
    }
    missing = tuple(one for one in (old, new) if one.pk not in calls)
    if missing:
        return Difference(old, new, None, missing)
    before, after = calls[old.pk], calls[new.pk]
    told = _with_marks(after.preview, _values(before), _values(after))
    return Difference(old, new, diff(_written(before.preview), _written(told)), ())


def _values(call: Call) -> dict[tuple[str, str], str]:
    """The values of environments, by container and name."""
    read = json.loads(call.parameters)
    return {
        (str(container.get("name")), str(item.get("name"))): str(item.get("value"))
        for container, item in _environments(read)
    }


def _environments(definition: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    for container in definition.get("containerDefinitions") or ():
        for item in container.get("environment") or ():
            yield container, item


def _with_marks(
    preview: Mapping[str, Any], before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """The same with a word beside each hidden value that is another one than before."""
    told: dict[str, Any] = json.loads(json.dumps(preview))
    for container, item in _environments(told):
        key = (str(container.get("name")), str(item.get("name")))
        if key in before and before[key] != after.get(key):
            item["value"] = f"{item.get('value')} {_CHANGED}"
    return told


def _written(definition: Mapping[str, Any]) -> str:
    compared = {key: value for key, value in definition.items() if key not in _NOT_COMPARED}
    return yaml.safe_dump(compared, sort_keys=True, allow_unicode=True, default_flow_style=False)
