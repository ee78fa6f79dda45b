"""Differences between deployed and running documents, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inventory.drift.documents.field_rules import (
    AWS_DEFAULT_FIELDS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    is_system_tag,
)
from inventory.drift.documents.normalization import NamedEntries, NamedTexts, normalize_document

Json = Mapping[str, Any]
# Given as a name or as an ARN, and shown as either.
_ROLE_FIELDS: Final = frozenset({"taskRoleArn", "executionRoleArn", "role", "roleArn"})


@dataclass(frozen=True)
class ServiceDocuments:
    """All that says how an ECS service runs; None where a part is not known, or not there.

    `count` is the desired count, None where auto scaling has the say. `policies` go by their names.
    """

    task_definition: Json | None = None
    service: Json | None = None
    count: int | None = None
    target: Json | None = None
    policies: Mapping[str, Json] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FieldDifference:
    """One field that is not as it was deployed; `desired` or `found` is None where it is not there.

    `document` is a kind of manifest, `path` where in it, such as `containerDefinitions[app].cpu`.
    """

    document: str
    path: str
    desired: Any
    actual: Any


def find_differences(
    desired: ServiceDocuments, found: ServiceDocuments, *, chosen: Mapping[str, Json]
) -> tuple[FieldDifference, ...]:
    """The fields of `found` that differ from `desired`, in the order of their paths.

    `chosen` is, by kind of manifest, what AWS had chosen where the documents say nothing (see `choices`).
    """
    return (
        *_compare_task_definition(desired, found),
        *_compare_service_definition(desired, found, chosen.get(SERVICE_DEFINITION, {})),
        *_compare_scaling(desired, found, chosen),
    )


def find_aws_defaults(desired: ServiceDocuments, found: ServiceDocuments) -> dict[str, dict[str, Any]]:
    """What AWS, or whoever set it up, has chosen where the manifests say nothing.

    Seen at the first look after a deployment, it is what the later ones compare with.
    """
    service = _find_document_defaults(SERVICE_DEFINITION, desired.service, found.service)
    target = _find_document_defaults(SCALABLE_TARGET, desired.target, found.target)
    if desired.target is None and found.target is not None:
        target = normalize_document(SCALABLE_TARGET, found.target)
    others = {
        name: normalize_document(SCALING_POLICY, one)
        for name, one in found.policies.items()
        if name not in desired.policies
    }
    return {SERVICE_DEFINITION: service, SCALABLE_TARGET: target, SCALING_POLICY: others}


def _compare_task_definition(desired: ServiceDocuments, found: ServiceDocuments) -> Iterator[FieldDifference]:
    if desired.task_definition is not None and found.task_definition is not None:
        old, new = (
            normalize_document(TASK_DEFINITION, one.task_definition or {}) for one in (desired, found)
        )
        yield from _compare_values(TASK_DEFINITION, old, new)


def _compare_service_definition(
    desired: ServiceDocuments, found: ServiceDocuments, chosen: Json
) -> Iterator[FieldDifference]:
    if desired.service is None or found.service is None:
        return
    old, new = (
        normalize_document(SERVICE_DEFINITION, desired.service),
        normalize_document(SERVICE_DEFINITION, found.service),
    )
    for one in (old, new):
        one.pop("tags", None)
    old = _apply_aws_defaults(SERVICE_DEFINITION, old, chosen)
    if desired.count is not None and found.count is not None:
        old["desiredCount"], new["desiredCount"] = desired.count, found.count
    ours = {key: value for key, value in desired.tags.items() if not is_system_tag(key)}
    # Tags that no manifest names are left alone by every deployment, and here.
    old["tags"], new["tags"] = (
        NamedTexts(ours),
        NamedTexts({k: v for k, v in found.tags.items() if k in ours}),
    )
    yield from _compare_values(SERVICE_DEFINITION, old, new)


def _compare_scaling(
    desired: ServiceDocuments, found: ServiceDocuments, chosen: Mapping[str, Json]
) -> Iterator[FieldDifference]:
    first = dict(chosen.get(SCALABLE_TARGET, {}))
    new = normalize_document(SCALABLE_TARGET, found.target) if found.target is not None else {}
    if desired.target is not None:
        old = _apply_aws_defaults(SCALABLE_TARGET, normalize_document(SCALABLE_TARGET, desired.target), first)
    else:
        old = first
    if old and not new:
        yield FieldDifference(SCALABLE_TARGET, "", old, None)
    elif new and not old:
        yield FieldDifference(SCALABLE_TARGET, "", None, new)
    else:
        yield from _compare_values(SCALABLE_TARGET, old, new)
    policies = NamedEntries({**chosen.get(SCALING_POLICY, {}), **_normalize_policies(desired)})
    yield from _compare_values(SCALING_POLICY, policies, NamedEntries(_normalize_policies(found)))


def _normalize_policies(documents: ServiceDocuments) -> dict[str, Any]:
    return {name: normalize_document(SCALING_POLICY, one) for name, one in documents.policies.items()}


def _find_document_defaults(kind: str, desired: Json | None, found: Json | None) -> dict[str, Any]:
    if desired is None or found is None:
        return {}
    said, shown = normalize_document(kind, desired), normalize_document(kind, found)
    return {key: shown[key] for key in AWS_DEFAULT_FIELDS[kind] if key in shown and key not in said}


def _apply_aws_defaults(kind: str, desired: dict[str, Any], chosen: Json) -> dict[str, Any]:
    """`desired`, with what AWS had chosen where it is silent."""
    silent = {key for key in AWS_DEFAULT_FIELDS[kind] if key not in desired}
    expected = {key: chosen[key] for key in silent if key in chosen}
    return {**desired, **expected}


def _compare_values(document: str, old: Any, new: Any, path: str = "") -> Iterator[FieldDifference]:
    if isinstance(old, dict) and isinstance(new, dict):
        old, new = _add_missing_structures(old, new), _add_missing_structures(new, old)
        for key in sorted({*old, *new}):
            inner = (
                f"{path}[{key}]"
                if isinstance(old, NamedEntries | NamedTexts)
                else f"{path}.{key}"
                if path
                else key
            )
            yield from _compare_values(document, old.get(key), new.get(key), inner)
    elif _are_records(old) and _are_records(new) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _compare_values(document, one, other, f"{path}[{number}]")
    elif not _is_equal(old, new, path):
        yield FieldDifference(document, path, old, new)


def _add_missing_structures(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """With nothing in it for each structure that only the other has: its fields are named one by one.

    An entry of a list that only one of them has is named as a whole.
    """
    if isinstance(one, NamedEntries):
        return one
    missing = {
        key: type(value)() for key, value in other.items() if isinstance(value, dict) and key not in one
    }
    found = type(one)(one)
    found.update(missing)
    return found


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _is_equal(old: Any, new: Any, path: str) -> bool:
    if old == new:
        return True
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    field = path.rpartition(".")[2]
    if field in _ROLE_FIELDS:
        return old.rpartition("/")[2] == new.rpartition("/")[2]
    # A namespace that was given by its name is shown by its ARN, which does not have it.
    return field == "namespace" and old.startswith("arn:") != new.startswith("arn:")


def is_sensitive_path(path: str) -> bool:
    """Whether a field holds what somebody may have meant to keep to himself."""
    if ".environment[" in path:
        return True
    is_option = ".logConfiguration.options." in path
    return is_option and any(word in path.lower() for word in ("token", "password", "secret", "key"))


def list_paths(found: Sequence[FieldDifference]) -> list[str]:
    """The paths, each with the document that it is in; for logs and tests."""
    return [f"{one.document}:{one.path}" for one in found]
