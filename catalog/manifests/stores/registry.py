"""Registry of manifest stores, and the fetch of documents from them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.manifests.cloudformation_templates import STACK_TEMPLATE, parse_template
from catalog.manifests.documents import Document, parse_manifest
from rbac.models import Scope

ManifestSource = Mapping[str, Any]
StoreFetcher = Callable[[ManifestSource, Scope], Iterable[Document]]


class StoreError(Exception):
    """A manifest could not be had from its store; the text says which, and what to do."""


@dataclass(frozen=True)
class ManifestStore:
    """A kind of place that manifests come from; `title` is what people and the log call it."""

    name: str
    title: str
    fetch: StoreFetcher


_stores: dict[str, ManifestStore] = {}


def register_store(name: str, *, title: str) -> Callable[[StoreFetcher], StoreFetcher]:
    """Enter a function as the way to fetch from a store."""

    def enter(fetch_from: StoreFetcher) -> StoreFetcher:
        _stores[name] = ManifestStore(name, title, fetch_from)
        return fetch_from

    return enter


def fetch_documents(source: ManifestSource, scope: Scope) -> list[Document]:
    """Fetch and parse what a manifest's source names, seen from a scope.

    Raises `StoreError` if it is not there, `BadDocument` if it is no YAML or JSON.
    """
    if texts := source.get("texts"):
        # Frozen when an execution started.
        return [parse_source_text(source, one["text"], one["name"]) for one in texts]
    found = _stores.get(source["store"])
    if found is None:
        known = ", ".join(list_store_names())
        raise StoreError(
            f'The manifest {source["identifier"]} is in an unknown store "{source["store"]}" ({known}).'
        )
    documents = list(found.fetch(source, scope))
    if not documents:
        raise StoreError(f"The manifest {source['identifier']} names no file. Give it at least one.")
    return documents


def parse_source_text(source: ManifestSource, text: str, name: str) -> Document:
    """A text of a source as a document. Raises `BadDocument`."""
    return parse_template(text, name) if source.get("kind") == STACK_TEMPLATE else parse_manifest(text, name)


def get_store_title(name: str) -> str:
    """What people call a store."""
    return _stores[name].title if name in _stores else name


def is_store(name: str) -> bool:
    return name in _stores


def list_store_names() -> list[str]:
    return sorted(_stores)
