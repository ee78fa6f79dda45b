"""Resources that enabled syncs manage: they are edited in Git."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.db.models import Model
from django.urls import reverse

from cli.resources.stored import Key
from gitsync.documents import get_scope_name
from gitsync.models import GitSyncResource
from web.managed_resources import Management

# Kinds whose edits can be committed to a branch.
PROPOSABLE_KINDS: Final = ("Environment", "Infrastructure", "Pipeline", "Service")


def find_git_management(resource: Model) -> Management | None:
    """Return the sync, the file and the commit of a resource; None if no enabled sync manages it."""
    if (build := _KEYS.get(resource._meta.label_lower)) is None:
        return None
    key = build(resource)
    if (row := find_managed_row(key)) is None:
        return None
    place = f"{row.path}, line {row.line}, at commit {row.commit[:12]}"
    branch = row.sync.edits_branch if key.kind in PROPOSABLE_KINDS else ""
    return Management(f"the Git sync {row.sync.name}", reverse("git-sync", args=[row.sync_id]), place, branch)


def build_resource_key(resource: Model) -> Key:
    """Return the key of a resource of a kind that documents have."""
    return _KEYS[resource._meta.label_lower](resource)


def find_managed_row(key: Key) -> GitSyncResource | None:
    """Return the row of a resource that an enabled sync manages."""
    rows = GitSyncResource.objects.filter(
        kind=key.kind, place=key.scope, parent=key.parent, resource=key.identifier, sync__is_enabled=True
    )
    return rows.exclude(state=GitSyncResource.State.REMOVED).select_related("sync__scope").first()


def _build_key(kind: str, parent: str = "") -> Callable[[Any], Key]:
    """Return a function that builds the key of a resource; `parent` is the attribute with its parent."""

    def build(resource: Any) -> Key:
        owner = getattr(resource, parent) if parent else resource
        identifier = owner.identifier if parent else ""
        return Key(kind, get_scope_name(owner.scope), resource.identifier, identifier)

    return build


_KEYS: Final[Mapping[str, Callable[[Any], Key]]] = {
    "connectors.connector": _build_key("Connector"),
    "catalog.environment": _build_key("Environment"),
    "catalog.service": _build_key("Service"),
    "catalog.infrastructure": _build_key("Infrastructure", "environment"),
    "pipelines.pipeline": _build_key("Pipeline"),
    "pipelines.inputset": _build_key("InputSet", "pipeline"),
    "pipelines.trigger": _build_key("Trigger", "pipeline"),
}
