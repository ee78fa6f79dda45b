"""Differences between deployed and running documents, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from guards.masks import is_sensitive_name
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
# Roles may be given and shown as name or ARN.
_ROLE_FIELDS: Final = frozenset({"taskRoleArn", "executionRoleArn", "role", "roleArn"})


@dataclass(frozen=True)
class ServiceDocuments:
    """The documents of an ECS service; None where one is unknown or absent.

    `count` is None where auto scaling sets it. `policies` are keyed by name.
    """

    task_definition: Json | None = None
    service: Json | None = None
    count: int | None = None
    target: Json | None = None
    policies: Mapping[str, Json] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FieldDifference:
    """One field that differs; `desired` or `actual` is None where the field is absent.

    `document` is a manifest kind, `path` the field, such as `containerDefinitions[app].cpu`.
    """

    document: str
    path: str
    desired: Any
    actual: Any


def find_differences(
    desired: ServiceDocuments, actual: ServiceDocuments, *, aws_defaults: Mapping[str, Json]
) -> tuple[FieldDifference, ...]:
    """Return the fields of `actual` that differ from `desired`, ordered by path.

    `aws_defaults` holds, by manifest kind, the values AWS chose for absent fields (see
    `find_aws_defaults`).
    """
    return (
        *_compare_task_definition(desired, actual),
        *_compare_service_definition(desired, actual, aws_defaults.get(SERVICE_DEFINITION, {})),
        *_compare_scaling(desired, actual, aws_defaults),
    )


def find_aws_defaults(desired: ServiceDocuments, actual: ServiceDocuments) -> dict[str, dict[str, Any]]:
    """Return the values that AWS, or another tool, chose for fields that no manifest sets.

    The first scan after a deployment stores them, later scans compare with them.
    """
    service = _find_document_defaults(SERVICE_DEFINITION, desired.service, actual.service)
    target = _find_document_defaults(SCALABLE_TARGET, desired.target, actual.target)
    if desired.target is None and actual.target is not None:
        target = normalize_document(SCALABLE_TARGET, actual.target)
    policies = {
        name: normalize_document(SCALING_POLICY, policy)
        for name, policy in actual.policies.items()
        if name not in desired.policies
    }
    return {SERVICE_DEFINITION: service, SCALABLE_TARGET: target, SCALING_POLICY: policies}


def _compare_task_definition(
    desired: ServiceDocuments, actual: ServiceDocuments
) -> Iterator[FieldDifference]:
    if desired.task_definition is not None and actual.task_definition is not None:
        old, new = (
            normalize_document(TASK_DEFINITION, documents.task_definition or {})
            for documents in (desired, actual)
        )
        yield from _compare_values(TASK_DEFINITION, old, new)


def _compare_service_definition(
    desired: ServiceDocuments, actual: ServiceDocuments, aws_defaults: Json
) -> Iterator[FieldDifference]:
    if desired.service is None or actual.service is None:
        return
    old, new = (
        normalize_document(SERVICE_DEFINITION, desired.service),
        normalize_document(SERVICE_DEFINITION, actual.service),
    )
    for document in (old, new):
        document.pop("tags", None)
    old = _apply_aws_defaults(SERVICE_DEFINITION, old, aws_defaults)
    if desired.count is not None and actual.count is not None:
        old["desiredCount"], new["desiredCount"] = desired.count, actual.count
    manifest_tags = {key: value for key, value in desired.tags.items() if not is_system_tag(key)}
    # Deployments leave tags alone that no manifest sets, so they are not compared.
    old["tags"], new["tags"] = (
        NamedTexts(manifest_tags),
        NamedTexts({k: v for k, v in actual.tags.items() if k in manifest_tags}),
    )
    yield from _compare_values(SERVICE_DEFINITION, old, new)


def _compare_scaling(
    desired: ServiceDocuments, actual: ServiceDocuments, aws_defaults: Mapping[str, Json]
) -> Iterator[FieldDifference]:
    target_defaults = dict(aws_defaults.get(SCALABLE_TARGET, {}))
    new = normalize_document(SCALABLE_TARGET, actual.target) if actual.target is not None else {}
    if desired.target is not None:
        old = _apply_aws_defaults(
            SCALABLE_TARGET, normalize_document(SCALABLE_TARGET, desired.target), target_defaults
        )
    else:
        old = target_defaults
    if old and not new:
        yield FieldDifference(SCALABLE_TARGET, "", old, None)
    elif new and not old:
        yield FieldDifference(SCALABLE_TARGET, "", None, new)
    else:
        yield from _compare_values(SCALABLE_TARGET, old, new)
    policies = NamedEntries({**aws_defaults.get(SCALING_POLICY, {}), **_normalize_policies(desired)})
    yield from _compare_values(SCALING_POLICY, policies, NamedEntries(_normalize_policies(actual)))


def _normalize_policies(documents: ServiceDocuments) -> dict[str, Any]:
    return {name: normalize_document(SCALING_POLICY, policy) for name, policy in documents.policies.items()}


def _find_document_defaults(kind: str, desired: Json | None, actual: Json | None) -> dict[str, Any]:
    if desired is None or actual is None:
        return {}
    expected, running = normalize_document(kind, desired), normalize_document(kind, actual)
    return {key: running[key] for key in AWS_DEFAULT_FIELDS[kind] if key in running and key not in expected}


def _apply_aws_defaults(kind: str, desired: dict[str, Any], aws_defaults: Json) -> dict[str, Any]:
    """Fill absent fields of `desired` with the values AWS chose."""
    absent = {key for key in AWS_DEFAULT_FIELDS[kind] if key not in desired}
    expected = {key: aws_defaults[key] for key in absent if key in aws_defaults}
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
        for number, (old_entry, new_entry) in enumerate(zip(old, new, strict=True)):
            yield from _compare_values(document, old_entry, new_entry, f"{path}[{number}]")
    elif not _is_equal(old, new, path):
        yield FieldDifference(document, path, old, new)


def _add_missing_structures(document: dict[str, Any], counterpart: dict[str, Any]) -> dict[str, Any]:
    """Add an empty structure for each that only `counterpart` has, so that its fields differ one by one.

    A list entry that only one side has differs as a whole.
    """
    if isinstance(document, NamedEntries):
        return document
    missing = {
        key: type(value)()
        for key, value in counterpart.items()
        if isinstance(value, dict) and key not in document
    }
    completed = type(document)(document)
    completed.update(missing)
    return completed


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _is_equal(old: Any, new: Any, path: str) -> bool:
    if old == new:
        return True
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    field = path.rpartition(".")[2]
    if field in _ROLE_FIELDS:
        return old.rpartition("/")[2] == new.rpartition("/")[2]
    # AWS shows a namespace given by name as an ARN that does not contain the name.
    return field == "namespace" and old.startswith("arn:") != new.startswith("arn:")


def is_sensitive_path(path: str) -> bool:
    """Return whether a field may hold a secret."""
    if ".environment[" in path:
        return True
    return ".logConfiguration.options." in path and is_sensitive_name(path)


def list_paths(differences: Sequence[FieldDifference]) -> list[str]:
    """Return each path with its document, for logs and tests."""
    return [f"{difference.document}:{difference.path}" for difference in differences]
