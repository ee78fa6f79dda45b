"""Reads the manifests of one kind from their stores: a service's, and those that override it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catalog.manifests.document import Document
from catalog.manifests.kinds import SCALABLE_TARGET, SCALING_POLICY
from catalog.manifests.layers import MERGE, Layer
from catalog.manifests.stores import fetch
from rbac.models import Scope

Row = Mapping[str, Any]
SERVICE = "service"


def read_layers(
    kind: str, rows: Sequence[Row], scope: Scope, resolve: Callable[[Document], Document] = lambda one: one
) -> list[Layer]:
    """The documents of a kind as layers, the weakest first; `resolve` fills in expressions.

    A service has one manifest of a kind, its first, but any number of scaling policies: each document of
    each source is one. Of several scalable targets the later are laid over the earlier, as AWS does.
    Raises `StoreError` and `BadDocument`.
    """
    counting = rows if kind in (SCALING_POLICY, SCALABLE_TARGET) else _counting(rows)
    return [layer for row in counting for layer in _layers_of(kind, row, scope, resolve)]


def name_of(row: Row) -> str:
    """What people are told of a manifest: an override, often named as what it overrides, says whose it is."""
    level, identifier = row.get("level", SERVICE), str(row["identifier"])
    return identifier if level == SERVICE else f"{identifier} of the {level}"


def _counting(rows: Sequence[Row]) -> Iterator[Row]:
    has_base = False
    for row in rows:
        is_base = row.get("level", SERVICE) == SERVICE
        if not (is_base and has_base):
            yield row
        has_base = has_base or is_base


def _layers_of(kind: str, row: Row, scope: Scope, resolve: Callable[[Document], Document]) -> Iterator[Layer]:
    documents = fetch({**row, "identifier": name_of(row)}, scope)
    for document in documents if kind == SCALING_POLICY else documents[:1]:
        yield Layer(
            row.get("level", SERVICE),
            resolve(document),
            row.get("mode", MERGE),
            row["identifier"],
            tuple(row["paths"]),
        )
