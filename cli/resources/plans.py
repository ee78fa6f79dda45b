"""Plan of an application: what to create, change and delete, with differences."""

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cli.client import ApiClient
from cli.resources.kinds import INFRASTRUCTURE, KINDS, PIPELINE, Spec
from cli.resources.stored import Key, StoredResource, is_same_connector, list_resources, read_resource
from cli.resources.yaml_documents import ResourceDocument, dump_yaml, read_pipeline


class ChangeType(StrEnum):
    """What happens to a resource."""

    CREATE = "create"
    UPDATE = "change"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """Change of one resource."""

    type: ChangeType
    key: Key
    document: ResourceDocument | None = None
    """The desired state; None for a deletion."""
    stored: StoredResource | None = None
    etag: str = ""
    """Version that the difference was computed from."""
    before: Spec | None = None
    after: Spec | None = None

    @property
    def diff(self) -> list[str]:
        """Return the lines of a unified diff of both specs."""
        before, after = map(self._render, (self.before, self.after))
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
        return [line for line in lines if not line.startswith(("---", "+++"))]

    def _render(self, spec: Spec | None) -> str:
        """Return a spec as YAML; of a resource that comes or goes without the fields with defaults."""
        if spec is None:
            return ""
        is_whole = self.type is ChangeType.UPDATE
        return dump_yaml(spec if is_whole else KINDS[self.key.kind].shorten_spec(spec))


@dataclass(frozen=True)
class Plan:
    """Changes in the order in which they can be made."""

    changes: tuple[Change, ...]
    unchanged: int

    def count(self, kind: ChangeType) -> int:
        """Return the number of changes of a type."""
        return sum(change.type is kind for change in self.changes)

    def describe(self) -> str:
        """Return the numbers of changes in one line."""
        counts = ", ".join(f"{self.count(kind)} to {kind.value}" for kind in ChangeType)
        return f"{counts}, {self.unchanged} unchanged"


def build_plan(
    client: ApiClient,
    documents: Sequence[ResourceDocument],
    *,
    prunes: bool = False,
    deletable: Collection[Key] = (),
) -> Plan:
    """Return the changes that make the server's resources equal to the documents.

    Resources that no document names are deleted if they are `deletable`, or with `prunes`, if they are of
    the kinds and in the scopes of the documents. Raises `CliError` for a document that is not valid.
    """
    desired = index_documents(documents)
    stored = {
        resource.key: resource
        for kind, scope in sorted({(key.kind, key.scope) for key in (*desired, *deletable)})
        for resource in list_resources(client, KINDS[kind], scope)
    }
    changes, unchanged = [], 0
    for key in sorted(desired, key=_get_rank):
        change = _compare(client, key, desired[key], stored.get(key))
        if change is None:
            unchanged += 1
        else:
            changes.append(change)
    left = [key for key in stored if key not in desired and (prunes or key in deletable)]
    changes += [_build_deletion(client, stored[key]) for key in sorted(left, key=_get_rank, reverse=True)]
    return Plan(tuple(changes), unchanged)


def get_key(document: ResourceDocument) -> Key:
    """Return the identity of a document. Raises `CliError` for an unknown kind or field."""
    kind = KINDS.get(document.kind)
    if kind is None:
        raise document.build_error(f"unknown kind {document.kind}; use {', '.join(KINDS)}", ("kind",))
    if document.scope.count("/") > 1:
        raise document.build_error("must be ORGANIZATION or ORGANIZATION/PROJECT", ("scope",))
    for name in document.spec:
        if name not in kind.fields:
            raise document.build_error(f"unknown key {name}; use {', '.join(kind.fields)}", ("spec", name))
    for name in kind.required:
        if name not in document.spec:
            raise document.build_error(f"spec.{name} is missing", ("spec",))
    parent = document.spec[kind.parent.field] if kind.parent else ""
    if not isinstance(parent, str) and kind.parent:
        raise document.build_error(f"{kind.parent.field} must be a text", ("spec", kind.parent.field))
    return Key(document.kind, document.scope, document.identifier, parent)


def index_documents(documents: Sequence[ResourceDocument]) -> dict[Key, ResourceDocument]:
    """Return the documents by their keys. Raises `CliError` for one that is not valid, or there twice."""
    desired: dict[Key, ResourceDocument] = {}
    for document in documents:
        key = get_key(document)
        if key in desired:
            raise document.build_error(f"{key} is also in {desired[key].location.describe()}")
        _refuse_number_as_tag(document)
        if key.kind == PIPELINE.name:
            _check_pipeline(document)
        desired[key] = document
    return desired


def _refuse_number_as_tag(document: ResourceDocument) -> None:
    """Refuse a tag such as 1.10 without quotes, which YAML reads as the number 1.1."""
    artifact = document.spec.get("artifact")
    tag = artifact.get("tag", "") if isinstance(artifact, dict) else ""
    if not isinstance(tag, str):
        raise document.build_error("tag must be a text; put it in quotes", ("spec", "artifact", "tag"))


def _check_pipeline(document: ResourceDocument) -> None:
    """Check that a pipeline's YAML has the identifier of its document; the server checks the rest."""
    text = document.spec["yaml"]
    if not isinstance(text, str):
        raise document.build_error("yaml must be a text; write it as a block: yaml: |", ("spec", "yaml"))
    identifier = read_pipeline(text).get("identifier")
    if identifier is not None and identifier != document.identifier:
        message = f"the pipeline in yaml has the identifier {identifier}, not {document.identifier}"
        raise document.build_error(message, ("spec", "yaml"))


def _compare(
    client: ApiClient, key: Key, document: ResourceDocument, stored: StoredResource | None
) -> Change | None:
    """Return the change from the stored to the desired state, or None if they are equal."""
    kind = KINDS[key.kind]
    after = kind.complete_spec(document.spec)
    if stored is None:
        return Change(ChangeType.CREATE, key, document, after=after)
    if kind is INFRASTRUCTURE and is_same_connector(after["connector"], stored.connector_reference):
        after["connector"] = stored.row["connector"]
    if is_same_value(stored.spec, after):
        return None
    current, etag = read_resource(client, stored)
    before = current.spec
    if is_same_value(before, after):
        return None
    for name in kind.fixed:
        if before[name] != after[name]:
            message = f"{name} of {key} is {before[name]} and cannot change"
            raise document.build_error(message, ("spec", name))
    return Change(ChangeType.UPDATE, key, document, current, etag, before, after)


def is_same_value(first: Any, second: Any) -> bool:
    """Return whether two values are the same in a document, where true is not the number 1 as in Python."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            is_same_value(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same_value, first, second))
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def _build_deletion(client: ApiClient, stored: StoredResource) -> Change:
    current, etag = read_resource(client, stored)
    return Change(ChangeType.DELETE, stored.key, stored=current, etag=etag, before=current.spec)


def _get_rank(key: Key) -> tuple[int, str, str, str]:
    return list(KINDS).index(key.kind), key.scope, key.parent, key.identifier
