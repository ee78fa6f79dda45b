"""File store of Slipway as a manifest store (R170, R171)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from catalog.manifests.stores.registry import ManifestSource, ManifestStore, StoreError, register_store
from connectors.file_store import FileNotInStore, StoredFile, get_owner_scope, read_files
from connectors.required_access import RequiredPermission, get_file_requirements
from rbac.models import Scope
from rbac.policy import Principal, can
from steps.expressions import has_expression

FILE_STORE: Final = "FileStore"


@register_store
class FileStore(ManifestStore):
    """Every file that the paths name, and every file in the folders among them."""

    name = FILE_STORE
    title = "File Store"
    choice = "File store"
    position = 2
    keeps_versions = True

    def describe_problem(
        self, kind: str, content: str, paths: Sequence[str], place: Mapping[str, str]
    ) -> str:
        return "" if paths else "a manifest in the file store needs at least one path"

    def list_requirements(
        self, row: ManifestSource, scope: Scope, *, hint: str = "", path: str = ""
    ) -> Iterator[RequiredPermission]:
        """Yield access to the files; expressions are resolved only in a run."""
        refs = [str(ref) for ref in row["paths"] if not has_expression(str(ref))]
        yield from get_file_requirements(refs, scope, hint=hint, path=path)

    def describe_denied_path(self, path: str, scope: Scope, reader: Principal) -> str:
        if can(reader, "core_file_view", get_owner_scope(scope, path)):
            return ""
        return f"You cannot view the file {path}"

    def read_files(self, source: ManifestSource, scope: Scope) -> Iterator[StoredFile]:
        for path in source["paths"]:
            try:
                yield from read_files(scope, path)
            except FileNotInStore as missing:
                raise StoreError(missing.detail) from missing
