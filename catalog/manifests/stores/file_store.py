"""The file store: files and folders that people keep in Slipway itself (R170, R171)."""

from collections.abc import Iterator

from catalog.manifests.document import Document
from catalog.manifests.stores.base import Source, StoreError, document_of, store
from connectors.files import FileMissing, read_files
from rbac.models import Scope

FILE_STORE = "FileStore"


def is_in_file_store(row: Source) -> bool:
    """Whether a manifest lies in the file store."""
    return bool(row["store"] == FILE_STORE)


@store(FILE_STORE, title="File Store")
def fetch_files(source: Source, scope: Scope) -> Iterator[Document]:
    """Every file that the source's paths name, and every file in the folders among them."""
    for path in source["paths"]:
        try:
            files = read_files(scope, path)
        except FileMissing as missing:
            raise StoreError(missing.detail) from missing
        for file in files:
            yield document_of(source, file.text, file.ref)
