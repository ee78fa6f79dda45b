"""Git syncs as users of connectors."""

from collections.abc import Collection, Sequence

from django.urls import reverse

from connectors.models import Connector
from connectors.usages import UserKeys, group_connector_users, register_connector_users
from gitsync.models import GitSync
from gitsync.operations import VIEW
from rbac.policy import Principal, filter_visible
from web.usages import ResourceUsage, ResourceUsages


def build_git_sync_uses(sync_ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of Git syncs from their keys."""
    rows = GitSync.objects.filter(pk__in=sync_ids)
    visible = filter_visible(principal, VIEW, rows).order_by("scope__path", "identifier")
    usages = tuple(
        ResourceUsage(f"Git sync {sync.name}", reverse("git-sync", args=[sync.pk])) for sync in visible
    )
    return ResourceUsages(usages, hidden=len(sync_ids) - len(usages))


@register_connector_users("Git sync", build_git_sync_uses)
def find_git_syncs_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the Git syncs that use each connector; one query."""
    rows = GitSync.objects.filter(connector__in=[connector.pk for connector in connectors])
    return group_connector_users(rows.values_list("connector", "pk"))
