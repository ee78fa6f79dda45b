"""The inline store: the manifest is written in the service itself."""

from collections.abc import Iterator

from catalog.manifests.document import Document
from catalog.manifests.stores.base import Source, document_of, store
from rbac.models import Scope


@store("Inline", title="inline text")
def fetch_inline(source: Source, _scope: Scope) -> Iterator[Document]:
    """The source's own text, named after the manifest."""
    if source.get("content"):
        yield document_of(source, source["content"], source["identifier"])
