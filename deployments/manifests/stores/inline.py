"""The inline store: the manifest is written in the service itself."""

from collections.abc import Iterator

from deployments.manifests.document import Document, parse
from deployments.manifests.stores.base import Source, store
from rbac.models import Scope


@store("Inline", title="inline text")
def fetch_inline(source: Source, _scope: Scope) -> Iterator[Document]:
    """The source's own text, named after the manifest."""
    if source.get("content"):
        yield parse(source["content"], source["identifier"])
