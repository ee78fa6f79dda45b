"""Git and S3 stores, whose files a run, a preview or a user fetches beforehand."""

from catalog.manifests.documents import Document
from catalog.manifests.locations import GIT, S3, describe_location
from catalog.manifests.stores.registry import ManifestSource, StoreError, register_store
from rbac.models import Scope


class NotFetchedError(StoreError):
    """The files of a manifest lie elsewhere and have not been fetched for whoever asks."""


@register_store(GIT, title="Git")
@register_store(S3, title="S3")
def fetch_remote(source: ManifestSource, _scope: Scope) -> tuple[Document, ...]:
    """The texts come with the source; without them nobody has fetched it."""
    if not source["paths"]:
        return ()
    raise NotFetchedError(
        f"The manifest {source['identifier']} in {describe_location(source)} has not been fetched yet."
    )
