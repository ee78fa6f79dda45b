"""Normalization of documents: AWS defaults removed, units unified, lists keyed by name."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws.shapes import get_parameter_names
from inventory.drift.documents.field_rules import (
    DEFAULTS,
    ENTRY_KEYS,
    IGNORED_FIELDS,
    PAIR_LISTS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    UNORDERED_LISTS,
)

_CREATE_OPERATIONS: Final = {
    TASK_DEFINITION: ("ecs", "RegisterTaskDefinition"),
    SERVICE_DEFINITION: ("ecs", "CreateService"),
    SCALABLE_TARGET: ("application-autoscaling", "RegisterScalableTarget"),
    SCALING_POLICY: ("application-autoscaling", "PutScalingPolicy"),
}
_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", False, {}, [], ())


class NamedEntries(dict[str, Any]):
    """The entries of a list by their names."""


class NamedTexts(dict[str, str]):
    """Values of names that somebody chose, such as environment variables: an empty one is a value too."""


def normalize_document(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a document that its operation takes, without those that say what is so anyway.

    `kind` is a kind of manifest. Named lists become `Named`, pairs `NamedTexts`, lists in no order are
    sorted.
    """
    fields = get_parameter_names(*_CREATE_OPERATIONS[kind]) - IGNORED_FIELDS[kind]
    kept = {key: value for key, value in document.items() if key in fields}
    if kind == TASK_DEFINITION:
        kept = _normalize_units(kept)
    found = _normalize_structure(kept, kind)
    if kind == TASK_DEFINITION and document.get("networkMode") in ("awsvpc", "host"):
        _drop_default_host_ports(found)
    return found


def _normalize_units(document: Mapping[str, Any]) -> dict[str, Any]:
    """CPU in units and memory in MiB, however they were written: 1 vCPU is 1024, 2 GB are 2048."""
    sizes = {"cpu": "vcpu", "memory": "gb"}
    return {
        key: _parse_amount(str(value), sizes[key]) if key in sizes else value
        for key, value in document.items()
    }


def _parse_amount(text: str, unit: str) -> str:
    number = text.strip().lower()
    if not number.endswith(unit):
        return text.strip()
    try:
        return str(round(float(number.removesuffix(unit)) * 1024))
    except ValueError:
        return text


def _drop_default_host_ports(document: Mapping[str, Any]) -> None:
    """In these network modes the host's port is the container's, whether it is said or not."""
    for container in document.get("containerDefinitions", {}).values():
        for mapping in container.get("portMappings", {}).values():
            if mapping.get("hostPort") == mapping.get("containerPort"):
                mapping.pop("hostPort", None)


def _normalize_structure(value: Mapping[str, Any], under: str) -> dict[str, Any]:
    defaults = DEFAULTS.get(under, {})
    found = {str(key): _normalize_value(inner, str(key)) for key, inner in value.items()}
    return {key: inner for key, inner in found.items() if not _is_default_value(inner, defaults.get(key))}


def _is_default_value(value: Any, default: Any) -> bool:
    if default is True:
        return value is True or value is None
    if isinstance(value, bool):
        return not value
    if default is not None and value == default:
        return True
    return not isinstance(value, int | float) and value in _EMPTY_VALUES


def _normalize_value(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return _normalize_structure(value, key)
    if not isinstance(value, list | tuple):
        return value
    if key in PAIR_LISTS and _has_names(value, PAIR_LISTS[key][:1]):
        name, said = PAIR_LISTS[key]
        return NamedTexts({str(one[name]): str(one.get(said, "")) for one in value})
    if key in ENTRY_KEYS and all(isinstance(one, Mapping) for one in value):
        return _key_by_name(value, key)
    entries = [_normalize_structure(one, key) if isinstance(one, Mapping) else one for one in value]
    return sorted(entries, key=_build_sort_key) if key in UNORDERED_LISTS else entries


def _key_by_name(entries: Sequence[Mapping[str, Any]], key: str) -> NamedEntries:
    found = NamedEntries()
    for one in entries:
        parts = [
            str(one[name])
            for name in ENTRY_KEYS[key]
            if name in one and not _is_default_entry(one, name, key)
        ]
        name, number = ":".join(parts) or "?", 2
        while name in found:
            name, number = f"{':'.join(parts)} #{number}", number + 1
        # Its name stays: an entry that says nothing else is there all the same.
        found[name] = {
            **_normalize_structure(one, key),
            **{part: one[part] for part in ENTRY_KEYS[key] if part in one},
        }
        for part in ENTRY_KEYS[key]:
            if part in found[name] and _is_default_entry(one, part, key):
                del found[name][part]
    return found


def _is_default_entry(entry: Mapping[str, Any], name: str, key: str) -> bool:
    return name in DEFAULTS.get(key, {}) and entry[name] == DEFAULTS[key][name]


def _has_names(entries: Sequence[Any], names: Sequence[str]) -> bool:
    return all(isinstance(one, Mapping) and all(name in one for name in names) for one in entries)


def _build_sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
