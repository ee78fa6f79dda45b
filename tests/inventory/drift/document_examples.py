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


def build_document(kind: str) -> dict[str, Any]:
    """Return a document with two entries in each list and a non-default value in each field."""
    document: dict[str, Any] = _build_value(get_input_shape(*_MADE_BY[kind]), "x", frozenset())
    return {key: value for key, value in document.items() if key not in IGNORED_FIELDS[kind]}


def _build_value(shape: Any, name: str, parents: frozenset[str]) -> Any:
    match shape.type_name:
        case "structure":
            inner_parents = parents | {shape.name}
            return {
                key: _build_value(member, f"{name}.{key}", inner_parents)
                for key, member in shape.members.items()
                if member.name not in parents
            }
        case "list":
            return [_build_value(shape.member, f"{name}{number}", parents) for number in (1, 2)]
        case "map":
            return {key: _build_value(shape.value, f"{name}.{key}", parents) for key in ("first", "second")}
        case "boolean":
            # The value that is not what is so anyway.
            return not name.endswith((".essential", ".ReturnData"))
        case "integer" | "long" | "double" | "float":
            return 7000 + 10 * sum(name.encode())
        case "timestamp":
            return "2026-01-01"
    return f"{name}"


def iterate_leaves(document: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every plain value."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from iterate_leaves(value, (*path, key))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from iterate_leaves(value, (*path, number))
    else:
        yield path


def change_value(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the document with another value at one path."""
    other = copy.deepcopy(document)
    container: Any = other
    for part in path[:-1]:
        container = container[part]
    value = container[path[-1]]
    container[path[-1]] = (
        not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}!"
    )
    return other
