"""Layers of one manifest kind, read from their stores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catalog.manifests.documents import Document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY
from catalog.manifests.layers import MERGE, ManifestLayer
from catalog.manifests.stores import fetch_documents
from rbac.models import Scope

LayerRow = Mapping[str, Any]
SERVICE_LEVEL = "service"


def read_layers(
    kind: str,
    rows: Sequence[LayerRow],
    scope: Scope,
    resolve: Callable[[Document], Document] = lambda one: one,
) -> list[ManifestLayer]:
    """Return the documents of a kind as layers, weakest first; `resolve` resolves expressions.

    A service has one manifest of each kind, the first, but any number of scaling policies: each document of
    each source is one. Later scalable targets are merged over earlier ones, as AWS does. Raises `StoreError`
    and `BadDocument`.
    """
    counting = rows if kind in (SCALING_POLICY, SCALABLE_TARGET) else _drop_extra_manifests(rows)
    return [layer for row in counting for layer in _read_row_layers(kind, row, scope, resolve)]


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
