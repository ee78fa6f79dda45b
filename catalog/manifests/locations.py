"""Locations of manifests: validation, files that are fetched together, and the connectors they name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from catalog.manifests.documents import Document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY
from catalog.manifests.layers import MERGE, ManifestLayer
from catalog.manifests.stores import fetch_documents, get_store
from connectors.models import Connector
from connectors.queries import find_connector
from connectors.required_access import RequiredPermission, get_connector_requirements
from rbac.models import Scope

LocatedRow = Mapping[str, Any]
LocatedRows = Iterable[LocatedRow]


def is_remote(row: LocatedRow) -> bool:
    """Return whether a manifest is fetched through a connector."""
    return get_store(row["store"]).is_remote


def is_unfetched(row: LocatedRow) -> bool:
    """Return whether the files of a manifest have not been fetched yet."""
    return is_remote(row) and not row.get("texts")


def clean_location(store: str, place: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a location that a store accepts, without empty ones."""
    values = {field.name: str(place.get(field.name) or "").strip() for field in get_store(store).place_fields}
    return {name: value for name, value in values.items() if value}


def describe_store_problem(
    store: str, *, kind: str, content: str, paths: Sequence[str], place: Mapping[str, Any]
) -> str:
    """Return the problem of a manifest's location in its store, or an empty text."""
    names = [field.name for field in get_store(store).place_fields]
    unknown = [name for name in place if name not in names]
    if unknown and get_store(store).has_paths:
        return (
            f"unknown key {unknown[0]} of place in the store {store}; use one of {', '.join(names) or 'none'}"
        )
    return get_store(store).describe_problem(kind, content, paths, place)


def describe_location(row: LocatedRow) -> str:
    """Return the location of a manifest as text, such as "branch main of shop.git"."""
    return get_store(row["store"]).describe_location(row.get("place") or {})


def filter_same_location(rows: Iterable[LocatedRow], target: LocatedRow) -> list[LocatedRow]:
    """Return the manifests with the same location, which are fetched together."""
    return [row for row in rows if is_unfetched(row) and _is_same_location(row, target)]


def list_paths(rows: Iterable[LocatedRow]) -> list[str]:
    """Return the distinct paths of several manifests."""
    return list(dict.fromkeys(path.strip("/") for row in rows for path in row["paths"]))


def pin_files(row: LocatedRow, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest row with the texts of its files, and their commit or versions."""
    files: Mapping[str, str] = answer.get("files") or {}
    paths = [path.strip("/") for path in row["paths"]]
    texts = [
        {"name": name, "text": files[name]}
        for path in paths
        for name in sorted(files)
        if path in ("", name) or name.startswith(f"{path}/")
    ]
    pinned = {name: answer[name] for name in ("commit", "versions") if answer.get(name)}
    return {**row, **pinned, "texts": texts}


def _is_same_location(row: LocatedRow, other: LocatedRow) -> bool:
    return (row["store"], row.get("place")) == (other["store"], other.get("place"))


def find_store_connector(scope: Scope, store: str, reference: str) -> Connector | None:
    """Return the connector of the store's kind that a reference from `scope` names, or None."""
    return find_connector(scope, reference, get_store(store).connector_kind)


def load_named_connectors(scope: Scope, rows: LocatedRows) -> dict[tuple[str, str], Connector | None]:
    """Load the connectors that manifests reference, by store and identifier; None if missing."""
    names = {(row["store"], str(row["place"].get("connector", ""))) for row in rows if is_remote(row)}
    return {name: find_store_connector(scope, *name) for name in sorted(names)}


def list_store_needs(
    rows: LocatedRows, scope: Scope, *, hint: str, path: str, file_hint: str = ""
) -> Iterator[RequiredPermission]:
    """Yield the permissions that fetching manifests requires: on connectors, and on stored files (R082)."""
    rows = list(rows)
    for row in rows:
        yield from get_store(row["store"]).list_requirements(row, scope, hint=file_hint, path=path)
    for connector in load_named_connectors(scope, rows).values():
        if connector is not None:
            yield from get_connector_requirements(connector, hint=hint, path=path)


def resolve_connectors(rows: LocatedRows, scope: Scope) -> list[dict[str, Any]]:
    """Return the manifest rows as a run stores them: with the key of the current connector."""
    connectors = load_named_connectors(scope, rows := list(rows))
    return [dict(row) | _build_connector_key(connectors, row) for row in rows]


def _build_connector_key(
    connectors: Mapping[tuple[str, str], Connector | None], row: Mapping[str, Any]
) -> dict[str, Any]:
    if not is_remote(row):
        return {}
    connector = connectors[row["store"], str(row["place"].get("connector", ""))]
    return {"connector_id": connector.pk if connector else None}


LayerRow = Mapping[str, Any]
SERVICE_LEVEL = "service"


def read_layers(
    kind: str,
    rows: Sequence[LayerRow],
    scope: Scope,
    resolve: Callable[[Document], Document] = lambda document: document,
) -> list[ManifestLayer]:
    """Return the documents of a kind as layers, weakest first; `resolve` resolves expressions.

    A service has one manifest of each kind, the first, but any number of scaling policies: each document of
    each source is one. Later scalable targets are merged over earlier ones, as AWS does. Raises `StoreError`
    and `BadDocument`.
    """
    effective_rows = rows if kind in (SCALING_POLICY, SCALABLE_TARGET) else _drop_extra_manifests(rows)
    return [layer for row in effective_rows for layer in _read_row_layers(kind, row, scope, resolve)]


def format_manifest_name(row: LayerRow) -> str:
    """Return the display name of a manifest; an override's includes its level."""
    level, identifier = row.get("level", SERVICE_LEVEL), str(row["identifier"])
    return identifier if level == SERVICE_LEVEL else f"{identifier} of the {level}"


def _drop_extra_manifests(rows: Sequence[LayerRow]) -> Iterator[LayerRow]:
    has_base = False
    for row in rows:
        is_base = row.get("level", SERVICE_LEVEL) == SERVICE_LEVEL
        if not (is_base and has_base):
            yield row
        has_base = has_base or is_base


def _read_row_layers(
    kind: str, row: LayerRow, scope: Scope, resolve: Callable[[Document], Document]
) -> Iterator[ManifestLayer]:
    documents = fetch_documents({**row, "identifier": format_manifest_name(row)}, scope)
    for document in documents if kind == SCALING_POLICY else documents[:1]:
        yield ManifestLayer(
            row.get("level", SERVICE_LEVEL),
            resolve(document),
            row.get("mode", MERGE),
            row["identifier"],
            tuple(row["paths"]),
        )
