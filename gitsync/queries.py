"""Reads of Git syncs for pages and API."""

from typing import Final

from django.db.models import QuerySet

from connectors.models import Connector
from connectors.specs.sites import parse_site_spec
from gitsync.models import GitSync, GitSyncResource
from gitsync.operations import ACT_AS
from rbac.models import ServiceAccount
from rbac.policy import Principal, filter_visible, get_permissions

# Permission to view the difference of a kind.
_VIEW_PERMISSIONS: Final = {
    "Connector": "core_connector_view",
    "Environment": "core_environment_view",
    "Infrastructure": "core_environment_view",
    "InputSet": "core_inputset_view",
    "Pipeline": "core_pipeline_view",
    "Service": "core_service_view",
    "Trigger": "core_pipeline_view",
}


def list_git_connectors(person: Principal) -> "QuerySet[Connector]":
    """Return the Git connectors that a person may use."""
    rows = Connector.objects.filter(kind=Connector.Kind.GIT).select_related("scope")
    return filter_visible(person, "core_connector_access", rows).order_by("name", "pk")


def list_usable_accounts(person: Principal) -> "QuerySet[ServiceAccount]":
    """Return the service accounts that a person may act as."""
    rows = ServiceAccount.objects.select_related("scope", "user")
    return filter_visible(person, ACT_AS, rows).order_by("name", "pk")


def build_repository_url(sync: GitSync) -> str:
    """Return the URL of the repository, "" without a connector."""
    return parse_site_spec(sync.connector.spec).build_url(sync.repository) if sync.connector else ""


def list_viewable_kinds(sync: GitSync, reader: Principal) -> frozenset[str]:
    """Return the kinds of resources that a reader may view in the scope of a sync."""
    permissions = get_permissions(reader, sync)
    return frozenset(kind for kind, permission in _VIEW_PERMISSIONS.items() if permission in permissions)


def hide_difference(row: GitSyncResource, viewable_kinds: frozenset[str]) -> GitSyncResource:
    """Return a row, without its difference if the reader may not view its kind."""
    if row.kind not in viewable_kinds:
        row.difference = ""
    return row
