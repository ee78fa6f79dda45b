"""A document as it is compared: without what AWS adds, and in an order that does not depend on its author."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws.shapes import parameters_of
from inventory.drift.documents.shape import (
    DEFAULTS,
    NAMED_BY,
    NOT_COMPARED,
    PAIRS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    SETS,
    TASK_DEFINITION,
)

_MADE_BY: Final = {
    TASK_DEFINITION: ("ecs", "RegisterTaskDefinition"),
    SERVICE_DEFINITION: ("ecs", "CreateService"),
    SCALABLE_TARGET: ("application-autoscaling", "RegisterScalableTarget"),
    SCALING_POLICY: ("application-autoscaling", "PutScalingPolicy"),
}
_NOTHING: Final[tuple[Any, ...]] = (None, "", False, {}, [], ())


class Named(dict[str, Any]):
    """The entries of a list by their names."""


class Texts(dict[str, str]):
    """Values of names that somebody chose, such as environment variables: an empty one is a value too."""


def plain(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document that its operation takes, without those that say what is so anyway.

    `kind` is a kind of manifest. Named lists become `Named`, pairs `Texts`, lists in no order are sorted.
    """
    fields = parameters_of(*_MADE_BY[kind]) - NOT_COMPARED[kind]
    kept = {key: value for key, value in document.items() if key in fields}
    if kind == TASK_DEFINITION:
        kept = _with_units(kept)
    found = _structure(kept, kind)
    if kind == TASK_DEFINITION and document.get("networkMode") in ("awsvpc", "host"):
        _drop_same_ports(found)
    return found


def _with_units(document: Mapping[str, Any]) -> dict[str, Any]:
    """CPU in units and memory in MiB, however they were written: 1 vCPU is 1024, 2 GB are 2048."""
    sizes = {"cpu": "vcpu", "memory": "gb"}
    return {
        key: _amount(str(value), sizes[key]) if key in sizes else value for key, value in document.items()
    }


def _amount(text: str, unit: str) -> str:
    number = text.strip().lower()
    if not number.endswith(unit):
        return text.strip()
    try:
        return str(round(float(number.removesuffix(unit)) * 1024))
    except ValueError:
        return text


def _drop_same_ports(document: Mapping[str, Any]) -> None:
    """In these network modes the host's port is the container's, whether it is said or not."""
    for container in document.get("containerDefinitions", {}).values():
        for mapping in container.get("portMappings", {}).values():
            if mapping.get("hostPort") == mapping.get("containerPort"):
                mapping.pop("hostPort", None)


def _structure(value: Mapping[str, Any], under: str) -> dict[str, Any]:
    defaults = DEFAULTS.get(under, {})
    found = {str(key): _value(inner, str(key)) for key, inner in value.items()}
    return {key: inner for key, inner in found.items() if not _says_nothing(inner, defaults.get(key))}


def _says_nothing(value: Any, default: Any) -> bool:
    if default is True:
        return value is True or value is None
    if isinstance(value, bool):
        return not value
    if default is not None and value == default:
        return True
    return not isinstance(value, int | float) and value in _NOTHING


def _value(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return _structure(value, key)
    if not isinstance(value, list | tuple):
        return value
    if key in PAIRS and _has_names(value, PAIRS[key][:1]):
        name, said = PAIRS[key]
        return Texts({str(one[name]): str(one.get(said, "")) for one in value})
    if key in NAMED_BY and all(isinstance(one, Mapping) for one in value):
        return _named(value, key)
    entries = [_structure(one, key) if isinstance(one, Mapping) else one for one in value]
    return sorted(entries, key=_order) if key in SETS else entries


def _named(entries: Sequence[Mapping[str, Any]], key: str) -> Named:
    found = Named()
    for one in entries:
        parts = [str(one[name]) for name in NAMED_BY[key] if name in one and not _is_default(one, name, key)]
        name, number = ":".join(parts) or "?", 2
        while name in found:
            name, number = f"{':'.join(parts)} #{number}", number + 1
        # Its name stays: an entry that says nothing else is there all the same.
        found[name] = {**_structure(one, key), **{part: one[part] for part in NAMED_BY[key] if part in one}}
        for part in NAMED_BY[key]:
            if part in found[name] and _is_default(one, part, key):
                del found[name][part]
    return found


def _is_default(entry: Mapping[str, Any], name: str, key: str) -> bool:
    return name in DEFAULTS.get(key, {}) and entry[name] == DEFAULTS[key][name]


def _has_names(entries: Sequence[Any], names: Sequence[str]) -> bool:
    return all(isinstance(one, Mapping) and all(name in one for name in names) for one in entries)


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
