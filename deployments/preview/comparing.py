"""A task definition that would be registered beside the one that runs: what differs, and no value shown."""

import json
from collections.abc import Mapping
from typing import Any

from aws.errors import NotFound
from deployments.engine.masking import HIDDEN
from deployments.preview.running import PreviewedStep
from steps.actions.known_service import GONE
from steps.actions.plain_definition import plain
from web.text_diff import Diff, diff

_VALUES = ("environment", "environmentFiles")


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> Diff:
    """What differs, without AWS's own fields and defaults, in an order that does not depend on the author."""
    before, after = plain(old), plain(new)
    changed = _changed_values(before, after)
    return diff(_text(_hidden(before, frozenset())), _text(_hidden(after, changed)))


def live_definition(step: PreviewedStep, params: Mapping[str, Any]) -> dict[str, Any]:
    """What production runs, else the ECS service of the step, if of this family; else its newest revision.

    Empty if there is none. Raises `AwsError`.
    """
    family = params["family"]
    known = [step.memory.recall(name) or {} for name in ("blue before", "service before")]
    running = [str(one.get("task_definition", "")) for one in known if one.get("status") not in GONE]
    named = next((one for one in running if f"/{family}:" in one), family)
    try:
        answer = step.caller.looking.call("ecs", "DescribeTaskDefinition", {"taskDefinition": named})
    except NotFound:
        return {}
    return dict(answer.get("taskDefinition", {}))


Values = dict[tuple[str, str, str], Any]


def _changed_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    old, new = _values(before), _values(after)
    return frozenset(key for key, value in new.items() if key in old and old[key] != value)


def _values(definition: Mapping[str, Any]) -> Values:
    return {
        (container.get("name", ""), kind, one.get("name", "")): one.get("value")
        for container in definition.get("containerDefinitions", ())
        for kind in _VALUES
        for one in container.get(kind, ())
        if isinstance(one, Mapping)
    }


def _hidden(definition: Mapping[str, Any], changed: frozenset[tuple[str, str, str]]) -> dict[str, Any]:
    containers = [
        {
            key: [
                _hide(one, (container.get("name", ""), key, one.get("name", "")) in changed) for one in value
            ]
            if key in _VALUES
            else value
            for key, value in container.items()
        }
        for container in definition.get("containerDefinitions", ())
    ]
    return {**definition, **({"containerDefinitions": containers} if containers else {})}


def _hide(item: Mapping[str, Any], is_changed: bool) -> dict[str, Any]:
    return {**item, "value": f"{HIDDEN} (changed)" if is_changed else HIDDEN}


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str) if value else ""
