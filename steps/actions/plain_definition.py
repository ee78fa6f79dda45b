"""A task definition in one form, whoever wrote it: without AWS's own fields, defaults and order."""

from collections.abc import Mapping
from typing import Any

_OF_AWS = (
    "taskDefinitionArn",
    "revision",
    "status",
    "requiresAttributes",
    "compatibilities",
    "registeredAt",
    "registeredBy",
    "deregisteredAt",
    "tags",
)
# What AWS fills in where nothing was said.
_DEFAULTS = {"cpu": 0, "essential": True, "protocol": "tcp"}


def plain(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The definition as two that mean the same both are."""
    kept = {key: value for key, value in definition.items() if key not in _OF_AWS}
    # Where tasks have addresses of their own, a container's port is the host's; elsewhere it is a choice.
    is_same = kept.get("networkMode") in ("awsvpc", "host")
    plain: dict[str, Any] = _without_defaults(kept, is_same)
    return plain


def _without_defaults(value: Any, is_same: bool) -> Any:
    if isinstance(value, Mapping):
        found = {key: _without_defaults(inner, is_same) for key, inner in value.items()}
        if found.get("hostPort") == (found.get("containerPort") if is_same else 0):
            found.pop("hostPort", None)
        return {
            key: inner
            for key, inner in found.items()
            if inner not in ({}, [], None, "") and (key not in _DEFAULTS or inner != _DEFAULTS[key])
        }
    if isinstance(value, list | tuple):
        inner = [_without_defaults(one, is_same) for one in value]
        return sorted(inner, key=_order) if _is_named(value) else inner
    return value


def _is_named(items: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(item, Mapping) and "name" in item for item in items)


def _order(item: Mapping[str, Any]) -> str:
    return str(item["name"])
