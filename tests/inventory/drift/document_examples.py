"""Whole documents with every field that botocore knows, and every place where one value can change."""

import copy
from collections.abc import Iterator
from typing import Any

from aws.shapes import get_input_shape
from inventory.drift.documents.field_rules import (
    IGNORED_FIELDS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
)

Path = tuple[str | int, ...]
_MADE_BY = {
    TASK_DEFINITION: ("ecs", "RegisterTaskDefinition"),
    SERVICE_DEFINITION: ("ecs", "CreateService"),
    SCALABLE_TARGET: ("application-autoscaling", "RegisterScalableTarget"),
    SCALING_POLICY: ("application-autoscaling", "PutScalingPolicy"),
}


def whole(kind: str) -> dict[str, Any]:
    """Return a document with two entries in each list and a non-default value in each field."""
    document: dict[str, Any] = _value(get_input_shape(*_MADE_BY[kind]), "x", frozenset())
    return {key: value for key, value in document.items() if key not in IGNORED_FIELDS[kind]}


def _value(shape: Any, name: str, inside: frozenset[str]) -> Any:
    match shape.type_name:
        case "structure":
            deeper = inside | {shape.name}
            return {
                key: _value(member, f"{name}.{key}", deeper)
                for key, member in shape.members.items()
                if member.name not in inside
            }
        case "list":
            return [_value(shape.member, f"{name}{number}", inside) for number in (1, 2)]
        case "map":
            return {key: _value(shape.value, f"{name}.{key}", inside) for key in ("first", "second")}
        case "boolean":
            # The value that is not what is so anyway.
            return not name.endswith((".essential", ".ReturnData"))
        case "integer" | "long" | "double" | "float":
            return 7000 + 10 * sum(name.encode())
        case "timestamp":
            return "2026-01-01"
    return f"{name}"


def leaves(document: Any, at: Path = ()) -> Iterator[Path]:
    """The way to every plain value."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, (*at, key))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from leaves(value, (*at, number))
    else:
        yield at


def changed(document: dict[str, Any], at: Path) -> dict[str, Any]:
    """The same document with another value in one place."""
    other = copy.deepcopy(document)
    place: Any = other
    for part in at[:-1]:
        place = place[part]
    value = place[at[-1]]
    place[at[-1]] = (
        not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}!"
    )
    return other
