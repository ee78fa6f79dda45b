"""File store: files and folders kept in Slipway (R170, R171)."""

from collections.abc import Iterator

from catalog.manifests.documents import Document
from catalog.manifests.stores.registry import ManifestSource, StoreError, parse_source_text, register_store
from connectors.file_store import FileNotInStore, read_files
from rbac.models import Scope

FILE_STORE = "FileStore"


def is_in_file_store(row: ManifestSource) -> bool:
    """Whether a manifest lies in the file store."""
    return bool(row["store"] == FILE_STORE)


@register_store(FILE_STORE, title="File Store")
def fetch_files(source: ManifestSource, scope: Scope) -> Iterator[Document]:
    """Every file that the source's paths name, and every file in the folders among them."""
    for path in source["paths"]:
        try:
            files = read_files(scope, path)
        except FileNotInStore as missing:
            raise StoreError(missing.detail) from missing
        for file in files:
            yield parse_source_text(source, file.text, file.ref)
