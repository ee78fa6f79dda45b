"""Base class of the manifest stores that use a connector."""

from collections.abc import Mapping, Sequence
from typing import Final

from catalog.manifests.documents import Document
from catalog.manifests.stores.registry import ManifestSource, ManifestStore, StoreError, StoreField
from connectors.models import Connector
from rbac.models import Scope

CONNECTOR_FIELD: Final = StoreField(
    "connector",
    "Connector",
    help="The identifier of the connector.",
    cell_help="Its identifier, such as account.git.",
    suggestions="store-connectors",
    max_length=128,
    is_needed=True,
)


class NotFetchedError(StoreError):
    """The files of a remote manifest have not been fetched for the caller."""


class RemoteStore(ManifestStore):
    """Store with files that a run, a preview or a user fetches; the texts come with the source."""

    def describe_problem(
        self, kind: str, content: str, paths: Sequence[str], place: Mapping[str, str]
    ) -> str:
        if any(not isinstance(value, str) for value in place.values()):
            return "place holds texts only"
        if not place.get("connector"):
            return f"place needs the connector to {Connector.Kind(self.connector_kind).label}"
        if problem := super().describe_problem(kind, content, paths, place):
            return problem
        return self.describe_place_problem(place)

    def describe_place_problem(self, place: Mapping[str, str]) -> str:
        """Return the problem of a location's texts, or an empty text."""
        return ""

    def fetch(self, source: ManifestSource, scope: Scope) -> tuple[Document, ...]:
        """Raise `NotFetchedError`: the source was not fetched."""
        if not source["paths"]:
            return ()
        raise NotFetchedError(
            f"The manifest {source['identifier']} in {self.describe_location(source['place'])} "
            "has not been fetched yet."
        )
