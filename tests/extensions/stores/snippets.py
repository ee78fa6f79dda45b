"""Snippet store: manifests that a library of the company publishes by shelf."""

from collections.abc import Iterator, Mapping, Sequence

from catalog.manifests.stores.registry import (
    ManifestSource,
    ManifestStore,
    StoreError,
    StoreField,
    register_store,
)
from connectors.file_store import StoredFile
from rbac.models import Scope
from rbac.policy import Principal

LIBRARY: dict[tuple[str, str], str] = {}


@register_store
class SnippetStore(ManifestStore):
    """The snippets of a shelf."""

    name = "Snippet"
    title = "snippet library"
    choice = "In the snippet library"
    keeps_versions = True
    place_fields = (StoreField("shelf", "Shelf of the library", cell_help="Such as web.", is_needed=True),)

    def describe_problem(
        self, kind: str, content: str, paths: Sequence[str], place: Mapping[str, str]
    ) -> str:
        if not place.get("shelf"):
            return "place needs the shelf of the library"
        return super().describe_problem(kind, content, paths, place)

    def describe_denied_path(self, path: str, scope: Scope, reader: Principal) -> str:
        return "You may not see secret snippets" if path.startswith("secret") else ""

    def read_files(self, source: ManifestSource, scope: Scope) -> Iterator[StoredFile]:
        for path in source["paths"]:
            text = LIBRARY.get((source["place"]["shelf"], path))
            if text is None:
                raise StoreError(f"The shelf {source['place']['shelf']} has no snippet {path}.")
            yield StoredFile(path, text, version=7)
