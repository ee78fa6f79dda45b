"""Base class and registry of manifest stores, and the fetch of documents from them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from catalog.manifests.cloudformation_templates import STACK_TEMPLATE, parse_template
from catalog.manifests.documents import Document, parse_manifest
from connectors.file_store import StoredFile
from connectors.required_access import RequiredPermission
from rbac.models import Scope
from rbac.policy import Principal

ManifestSource = Mapping[str, Any]


class StoreError(Exception):
    """Error raised for a manifest that its store cannot return; the text names it and the remedy."""


@dataclass(frozen=True)
class StoreField:
    """One input that the forms show for the manifests of a store.

    `suggestions` is the id of a data list, `cell_help` the help text in the form of a step.
    """

    name: str
    label: str
    help: str = ""
    cell_help: str = ""
    placeholder: str = ""
    suggestions: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    max_length: int = 255
    is_needed: bool = False


class ManifestStore:
    """Base class of manifest stores: form, validation, permissions and files.

    A store with a `connector_kind` is remote: a run, a preview or a user fetches its files through a
    connector with `build_request`. Any other store reads its files itself, in `read_files`.
    """

    name: ClassVar[str]
    """The value of `store` in the API and of `type` in a pipeline."""
    title: ClassVar[str]
    """The name in the log and on pages."""
    choice: ClassVar[str]
    """The label of the choice in forms."""
    position: ClassVar[int] = 100
    """The place among the choices, the smallest first."""
    place_fields: ClassVar[tuple[StoreField, ...]] = ()
    """The keys of `place`; values are texts."""
    content_field: ClassVar[StoreField | None] = None
    """The input that becomes the content of the manifest, of a store without paths."""
    connector_kind: ClassVar[str] = ""
    serves_steps: ClassVar[bool] = True
    """Whether a step may keep a manifest of its own there."""
    keeps_versions: ClassVar[bool] = False
    """Whether the files can change after a run has started, so that the run keeps a copy."""

    @property
    def is_remote(self) -> bool:
        """Return whether only a connector leads to the files."""
        return bool(self.connector_kind)

    @property
    def has_paths(self) -> bool:
        """Return whether a manifest names files."""
        return self.content_field is None

    def list_form_fields(self) -> tuple[StoreField, ...]:
        """Return the inputs that describe a `place` in the form of a service."""
        return self.place_fields

    def build_place(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the `place` that form values describe."""
        return {field.name: values.get(field.name, "") for field in self.place_fields}

    def build_form_values(self, place: Mapping[str, str]) -> dict[str, str]:
        """Return the form values of a `place`."""
        return {field.name: place.get(field.name, "") for field in self.place_fields}

    def describe_problem(
        self, kind: str, content: str, paths: Sequence[str], place: Mapping[str, str]
    ) -> str:
        """Return the problem of a manifest, or an empty text. Keys of `place` are checked before."""
        if self.has_paths and not paths:
            return f"a manifest in {self.name} needs at least one path"
        return ""

    def describe_location(self, place: Mapping[str, str]) -> str:
        """Return the location of files in a store, as part of a sentence."""
        return f"the {self.title}"

    def list_requirements(
        self, row: ManifestSource, scope: Scope, *, hint: str = "", path: str = ""
    ) -> Iterator[RequiredPermission]:
        """Yield the permissions that the use of a manifest requires, beyond those on its connector (R082)."""
        yield from ()

    def describe_denied_path(self, path: str, scope: Scope, reader: Principal) -> str:
        """Return the reason why a reader may not view a file, or an empty text. Raises `FileNotInStore`."""
        return ""

    def build_request(self, place: Mapping[str, str]) -> dict[str, Any]:
        """Return the request parameters for the files of a place, of a remote store."""
        raise NotImplementedError(f"{self.name} fetches nothing through a connector")

    def describe_fetch(self, row: ManifestSource) -> str:
        """Return the log line of a manifest with fetched files."""
        return f"Fetched from {self.describe_location(row['place'])}"

    def read_files(self, source: ManifestSource, scope: Scope) -> Iterable[StoredFile]:
        """Read the files of a manifest, seen from a scope. Raises `StoreError`."""
        raise NotImplementedError(f"{self.name} reads no files itself")

    def fetch(self, source: ManifestSource, scope: Scope) -> Iterable[Document]:
        """Return the documents of a manifest. Raises `StoreError` and `BadDocument`."""
        for file in self.read_files(source, scope):
            yield parse_source_text(source, file.text, file.ref)


_stores: dict[str, ManifestStore] = {}
C = TypeVar("C", bound=type[ManifestStore])


def register_store(store: C) -> C:
    """Register a store class under its name."""
    if store.name in _stores:
        raise ValueError(f"There are two manifest stores named {store.name}")
    _stores[store.name] = store()
    return store


def fetch_documents(source: ManifestSource, scope: Scope) -> list[Document]:
    """Fetch and parse the documents of a manifest, seen from a scope.

    Raises `StoreError` if it is not there, `BadDocument` if it is no YAML or JSON.
    """
    if texts := source.get("texts"):
        # Frozen when an execution started.
        return [parse_source_text(source, row["text"], row["name"]) for row in texts]
    store = _stores.get(source["store"])
    if store is None:
        names = ", ".join(list_store_names())
        raise StoreError(
            f'The manifest {source["identifier"]} is in an unknown store "{source["store"]}" ({names}).'
        )
    documents = list(store.fetch(source, scope))
    if not documents:
        raise StoreError(f"The manifest {source['identifier']} has no file. Add at least one.")
    return documents


def parse_source_text(source: ManifestSource, text: str, name: str) -> Document:
    """Parse a text of a source. Raises `BadDocument`."""
    return parse_template(text, name) if source.get("kind") == STACK_TEMPLATE else parse_manifest(text, name)


def get_store(name: str) -> ManifestStore:
    """Return the store with a name, or a store without any files for an unknown name."""
    return _stores.get(name) or _UNKNOWN


def get_store_title(name: str) -> str:
    """Return the title of a store, or the name of an unknown one."""
    return _stores[name].title if name in _stores else name


def is_store(name: str) -> bool:
    return name in _stores


def list_stores() -> list[ManifestStore]:
    """Return the stores by name."""
    return [_stores[name] for name in list_store_names()]


def list_store_names() -> list[str]:
    return sorted(_stores)


class _UnknownStore(ManifestStore):
    """The store of a row that a newer version wrote."""

    name = title = choice = "unknown"


_UNKNOWN = _UnknownStore()
