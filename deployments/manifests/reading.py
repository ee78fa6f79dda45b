"""Reads the manifests of one kind from their stores: a service's, and those that override it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deployments.manifests.document import Document
from deployments.manifests.kinds import SCALING_POLICY
from deployments.manifests.layers import MERGE, Layer
from deployments.manifests.stores import fetch
from rbac.models import Scope

Row = Mapping[str, Any]
SERVICE = "service"


def read_layers(
    kind: str, rows: Sequence[Row], scope: Scope, resolve: Callable[[Document], Document] = lambda one: one
) -> list[Layer]:
    """The documents of a kind as layers, the weakest first; `resolve` fills in expressions.

    A service has one manifest of a kind, its first, but any number of scaling policies: each document of
    each source is one. Raises `StoreError` and `BadDocument`.
    """
    counting = rows if kind == SCALING_POLICY else _counting(rows)
    return [layer for row in counting for layer in _layers_of(kind, row, scope, resolve)]


def _counting(rows: Sequence[Row]) -> Iterator[Row]:
    has_base = False
    for row in rows:
        is_base = row.get("level", SERVICE) == SERVICE
        if not (is_base and has_base):
            yield row
        has_base = has_base or is_base


def _layers_of(kind: str, row: Row, scope: Scope, resolve: Callable[[Document], Document]) -> Iterator[Layer]:
    level = row.get("level", SERVICE)
    # An override is mostly called as what it overrides: what is told of it says whose it is.
    name = row["identifier"] if level == SERVICE else f"{row['identifier']} of the {level}"
    documents = fetch({**row, "identifier": name}, scope)
    for document in documents if kind == SCALING_POLICY else documents[:1]:
        yield Layer(
            level,
            resolve(document),
            row.get("mode", MERGE),
            row["identifier"],
            tuple(row["paths"]),
        )
