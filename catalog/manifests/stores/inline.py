"""Inline store: a manifest in the service itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from catalog.manifests.checks import list_secret_problems
from catalog.manifests.documents import BadDocument, parse_manifest
from catalog.manifests.stores.registry import ManifestSource, ManifestStore, StoreField, register_store
from connectors.file_store import StoredFile
from guards.limits import SPEC_BYTES
from rbac.models import Scope

INLINE: Final = "Inline"


@register_store
class InlineStore(ManifestStore):
    """The content of the manifest itself."""

    name = INLINE
    title = "inline text"
    choice = "Inline"
    position = 1
    content_field = StoreField("content", "Text", max_length=int(SPEC_BYTES))

    def describe_problem(
        self, kind: str, content: str, paths: Sequence[str], place: Mapping[str, str]
    ) -> str:
        if not content:
            return "an inline manifest needs its content"
        try:
            document = parse_manifest(content, "content")
        except BadDocument as error:
            return f"line {error.line}, column {error.column}: {error.message}"
        problem = next(iter(list_secret_problems(document)), None)
        return f"line {problem.line}: {problem.path}: {problem.message}" if problem else ""

    def read_files(self, source: ManifestSource, scope: Scope) -> Iterator[StoredFile]:
        """Return the source's own text, named after the manifest."""
        if source.get("content"):
            yield StoredFile(source["identifier"], source["content"])
