"""Resources of the server, by scope."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cli.client import ApiClient, parse_scope
from cli.errors import CliError, ExitCode
from cli.resources.kinds import INFRASTRUCTURE, KINDS, TRIGGER, Parent, ResourceKind, Row, Spec
from cli.resources.yaml_documents import get_scope_name

_LEVELS: Final = ("account", "org")


@dataclass(frozen=True)
class Key:
    """Identity of a resource; some are named within a parent, such as an environment."""

    kind: str
    scope: str
    identifier: str
    parent: str = ""

    def __str__(self) -> str:
        name = f"{self.parent}/{self.identifier}" if self.parent else self.identifier
        return f"{self.kind} {name} in {self.scope or 'account'}"


@dataclass(frozen=True)
class StoredResource:
    """Resource of the server."""

    key: Key
    path: str
    row: Row

    @property
    def spec(self) -> Spec:
        """Return the complete spec."""
        return KINDS[self.key.kind].build_spec(self.row)

    @property
    def connector_reference(self) -> str:
        """Return the connector of an infrastructure with its level; in a project its identifier."""
        identifier = str(self.row["connector"]).rpartition(".")[2]
        depth = str(self.row.get("connector_scope", "")).count("/")
        return f"{_LEVELS[depth]}.{identifier}" if depth < len(_LEVELS) else identifier


def is_same_connector(written: Any, reference: str) -> bool:
    """Return whether a document keeps the present connector: by its identifier, or with its level."""
    return written in (reference, reference.rpartition(".")[2])


def list_resources(client: ApiClient, kind: ResourceKind, scope: str) -> Iterator[StoredResource]:
    """Yield the visible resources of a kind in exactly one scope."""
    if kind.parent is not None:
        yield from _list_children(client, kind, kind.parent, scope)
        return
    for row in _list_rows(client, kind.collection, scope):
        yield StoredResource(Key(kind.name, scope, row["identifier"]), f"{kind.collection}/{row['id']}", row)


def list_scopes(client: ApiClient, scope: str) -> list[str]:
    """Return a scope and the visible scopes below it that have resources."""
    scopes = {scope}
    for kind in KINDS.values():
        if kind.parent is None:
            rows = client.list(kind.collection, **parse_scope(scope))
            scopes |= {get_scope_name(row["scope"]) for row in rows}
    return sorted(scopes)


def read_resource(client: ApiClient, stored: StoredResource) -> tuple[StoredResource, str]:
    """Return a resource as it is now, with the entity tag of that version."""
    answer = client.send("GET", stored.path)
    kind, row = KINDS[stored.key.kind], dict(answer.document)
    if kind.parent:
        row[kind.parent.field] = stored.key.parent
    if kind is TRIGGER and row["service_account"] == stored.row["service_account_id"]:
        row["service_account"] = stored.row["service_account"]
    return StoredResource(stored.key, stored.path, row), answer.etag


def find_parent(client: ApiClient, parent: Parent, identifier: str, scope: str) -> int | None:
    """Return the key of a parent in exactly one scope, or None."""
    rows = client.list(parent.collection, identifier=identifier, **parse_scope(scope))
    return next((int(row["id"]) for row in rows if get_scope_name(row["scope"]) == scope), None)


def find_service_account(client: ApiClient, identifier: str, scope: str) -> int | None:
    """Return the key of the nearest service account of a scope or above, or None."""
    rows = {
        get_scope_name(row["scope"]): int(row["id"])
        for row in client.list("service-accounts", identifier=identifier)
    }
    parts = scope.split("/")
    chain = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((rows[place] for place in (*chain, "") if place in rows), None)


def _list_children(
    client: ApiClient, kind: ResourceKind, parent: Parent, scope: str
) -> Iterator[StoredResource]:
    parents = {row["id"]: row["identifier"] for row in _list_rows(client, parent.collection, scope)}
    if kind is INFRASTRUCTURE:
        for key, identifier in parents.items():
            path = f"environments/{key}/infrastructures"
            for row in client.list(path):
                yield _build_child(kind, parent, scope, identifier, path, row)
        return
    accounts = _list_service_accounts(client) if kind is TRIGGER and parents else {}
    for row in client.list(kind.collection, **parse_scope(scope)) if parents else ():
        if row["pipeline"] in parents:
            identifier = parents[row["pipeline"]]
            if kind is TRIGGER:
                key = row["service_account"]
                row |= {"service_account_id": key, "service_account": accounts.get(key, key)}
            yield _build_child(kind, parent, scope, identifier, kind.collection, row)


def _build_child(
    kind: ResourceKind, parent: Parent, scope: str, identifier: str, path: str, row: Row
) -> StoredResource:
    key = Key(kind.name, scope, row["identifier"], identifier)
    return StoredResource(key, f"{path}/{row['id']}", {**row, parent.field: identifier})


def _list_rows(client: ApiClient, collection: str, scope: str) -> list[Row]:
    """Return the rows of a list in exactly one scope."""
    return [
        row for row in client.list(collection, **parse_scope(scope)) if get_scope_name(row["scope"]) == scope
    ]


def _list_service_accounts(client: ApiClient) -> dict[Any, str]:
    """Return the identifiers of the service accounts that the user may view, by their keys."""
    try:
        return {row["id"]: row["identifier"] for row in client.list("service-accounts")}
    except CliError as exc:
        if exc.code is ExitCode.FORBIDDEN:
            return {}
        raise
