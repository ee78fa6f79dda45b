"""What a store is, and the register that stores enter themselves in."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.manifests.document import Document, parse_manifest
from catalog.manifests.templates import STACK_TEMPLATE, read_template
from rbac.models import Scope

Source = Mapping[str, Any]
Fetch = Callable[[Source, Scope], Iterable[Document]]


class StoreError(Exception):
    """A manifest could not be had from its store; the text says which, and what to do."""


@dataclass(frozen=True)
class Store:
    """A kind of place that manifests come from; `title` is what people and the log call it."""

    name: str
    title: str
    fetch: Fetch


_stores: dict[str, Store] = {}


def store(name: str, *, title: str) -> Callable[[Fetch], Fetch]:
    """Enter a function as the way to fetch from a store."""

    def enter(fetch_from: Fetch) -> Fetch:
        _stores[name] = Store(name, title, fetch_from)
        return fetch_from

    return enter


def fetch(source: Source, scope: Scope) -> list[Document]:
    """Fetch and parse what a manifest's source names, seen from a scope.

    Raises `StoreError` if it is not there, `BadDocument` if it is no YAML or JSON.
    """
    if texts := source.get("texts"):
        # Frozen when an execution started.
        return [document_of(source, one["text"], one["name"]) for one in texts]
    found = _stores.get(source["store"])
    if found is None:
        known = ", ".join(store_names())
        raise StoreError(
            f'The manifest {source["identifier"]} is in an unknown store "{source["store"]}" ({known}).'
        )
    documents = list(found.fetch(source, scope))
    if not documents:
        raise StoreError(f"The manifest {source['identifier']} names no file. Give it at least one.")
    return documents


def document_of(source: Source, text: str, name: str) -> Document:
    """A text of a source as a document. Raises `BadDocument`."""
    return read_template(text, name) if source.get("kind") == STACK_TEMPLATE else parse_manifest(text, name)


def title_of(name: str) -> str:
    """What people call a store."""
    return _stores[name].title if name in _stores else name


def is_store(name: str) -> bool:
    return name in _stores


def store_names() -> list[str]:
    return sorted(_stores)
