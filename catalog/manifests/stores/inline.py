"""Inline store: a manifest written in the service."""

from collections.abc import Iterator

from catalog.manifests.documents import Document
from catalog.manifests.stores.registry import ManifestSource, parse_source_text, register_store
from rbac.models import Scope


@register_store("Inline", title="inline text")
def fetch_inline(source: ManifestSource, _scope: Scope) -> Iterator[Document]:
    """The source's own text, named after the manifest."""
    if source.get("content"):
        yield parse_source_text(source, source["content"], source["identifier"])
