"""The stores Git and S3: a run, a preview or a person fetches the files, and only then there are texts."""

from catalog.manifests.document import Document
from catalog.manifests.places import GIT, S3, words_of
from catalog.manifests.stores.base import Source, StoreError, store
from rbac.models import Scope


class NotFetched(StoreError):
    """The files of a manifest lie elsewhere and have not been fetched for whoever asks."""


@store(GIT, title="Git")
@store(S3, title="S3")
def fetch_git(source: Source, _scope: Scope) -> tuple[Document, ...]:
    """The texts come with the source; without them nobody has fetched it."""
    if not source["paths"]:
        return ()
    raise NotFetched(f"The manifest {source['identifier']} in {words_of(source)} has not been fetched yet.")
