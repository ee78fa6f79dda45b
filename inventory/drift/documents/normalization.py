"""Normalization of documents: AWS defaults removed, units unified, lists keyed by name."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws.shapes import get_parameter_names
from inventory.drift.documents.field_rules import (
    DAEMON_PERCENTAGES,
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
    """Entries of a list, keyed by name."""


class NamedTexts(dict[str, str]):
    """Values keyed by names that a person chose, such as environment variables; empty values count."""


def normalize_document(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the create operation takes, without default values.

    `kind` is a manifest kind. Named lists become `NamedEntries`, pairs `NamedTexts`; unordered lists are
    sorted.
    """
    fields = get_parameter_names(*_CREATE_OPERATIONS[kind]) - IGNORED_FIELDS[kind]
    selected = {key: value for key, value in document.items() if key in fields}
    if kind == TASK_DEFINITION:
        selected = _normalize_units(selected)
    normalized = _normalize_structure(selected, kind)
    if document.get("schedulingStrategy") == "DAEMON":
        normalized["deploymentConfiguration"] = {
            **normalized.get("deploymentConfiguration", {}),
            **_get_daemon_percentages(document.get("deploymentConfiguration") or {}),
        }
    if kind == TASK_DEFINITION and document.get("networkMode") in ("awsvpc", "host"):
        _drop_default_host_ports(normalized)
    return normalized


def _get_daemon_percentages(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the percentages of a DAEMON service, whose defaults are not those of other services."""
    return {key: configuration.get(key, default) for key, default in DAEMON_PERCENTAGES.items()}


def _normalize_units(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert CPU to units and memory to MiB: 1 vCPU is 1024, 2 GB are 2048."""
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
    """Remove host ports that equal the container port; these network modes imply them."""
    for container in document.get("containerDefinitions", {}).values():
        for mapping in container.get("portMappings", {}).values():
            if mapping.get("hostPort") == mapping.get("containerPort"):
                mapping.pop("hostPort", None)


def _normalize_structure(value: Mapping[str, Any], parent_key: str) -> dict[str, Any]:
    defaults = DEFAULTS.get(parent_key, {})
    normalized = {str(key): _normalize_value(inner, str(key)) for key, inner in value.items()}
    return {
        key: inner for key, inner in normalized.items() if not _is_default_value(inner, defaults.get(key))
    }


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
        name, value_key = PAIR_LISTS[key]
        return NamedTexts({str(item[name]): str(item.get(value_key, "")) for item in value})
    if key in ENTRY_KEYS and all(isinstance(item, Mapping) for item in value):
        return _key_by_name(value, key)
    entries = [_normalize_structure(item, key) if isinstance(item, Mapping) else item for item in value]
    return sorted(entries, key=_build_sort_key) if key in UNORDERED_LISTS else entries


def _key_by_name(entries: Sequence[Mapping[str, Any]], key: str) -> NamedEntries:
    keyed = NamedEntries()
    for entry in entries:
        parts = [
            str(entry[name])
            for name in ENTRY_KEYS[key]
            if name in entry and not _is_default_entry(entry, name, key)
        ]
        name, number = ":".join(parts) or "?", 2
        while name in keyed:
            name, number = f"{':'.join(parts)} #{number}", number + 1
        # The name stays, so that an entry without other fields is compared too.
        keyed[name] = {
            **_normalize_structure(entry, key),
            **{part: entry[part] for part in ENTRY_KEYS[key] if part in entry},
        }
        for part in ENTRY_KEYS[key]:
            if part in keyed[name] and _is_default_entry(entry, part, key):
                del keyed[name][part]
    return keyed


def _is_default_entry(entry: Mapping[str, Any], name: str, key: str) -> bool:
    return name in DEFAULTS.get(key, {}) and entry[name] == DEFAULTS[key][name]


def _has_names(entries: Sequence[Any], names: Sequence[str]) -> bool:
    return all(isinstance(entry, Mapping) and all(name in entry for name in names) for entry in entries)


def _build_sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
