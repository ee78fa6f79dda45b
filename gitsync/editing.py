"""Resources that enabled syncs manage: they are edited in Git."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.db.models import Model
from django.urls import reverse

from cli.resources.stored import Key
from gitsync.documents import get_scope_name
from gitsync.models import GitSyncResource
from web.managed_resources import Management


def find_git_management(resource: Model) -> Management | None:
    """Return the sync, the file and the commit of a resource; None if no enabled sync manages it."""
    build = _KEYS.get(resource._meta.label_lower)
    if build is None:
        return None
    key = build(resource)
    rows = GitSyncResource.objects.filter(
        kind=key.kind, place=key.scope, parent=key.parent, resource=key.identifier, sync__is_enabled=True
    )
    row = rows.exclude(state=GitSyncResource.State.REMOVED).select_related("sync").first()
    if row is None:
        return None
    place = f"{row.path}, line {row.line}, at commit {row.commit[:12]}"
    return Management(f"the Git sync {row.sync.name}", reverse("git-sync", args=[row.sync_id]), place)


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
