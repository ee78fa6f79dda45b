"""Reads of Git syncs for pages and API."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from django.db.models import Model, QuerySet
from django.urls import reverse

from catalog.models import Environment, Infrastructure, Service
from cli.resources.stored import Key
from cli.resources.yaml_documents import get_scope_name
from connectors.models import Connector
from connectors.specs.sites import parse_site_spec
from gitsync.managed_resources import build_key
from gitsync.models import GitSync, GitSyncProposal, GitSyncResource
from gitsync.operations import ACT_AS
from pipelines.models import InputSet, Pipeline, Trigger
from rbac.models import ServiceAccount
from rbac.policy import Principal, filter_visible, get_permissions_over_scope

DifferingRow = TypeVar("DifferingRow", GitSyncResource, GitSyncProposal)
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


class _Page(NamedTuple):
    """Page of a kind: its URL name, the column of its argument, and the relation to the parent."""

    model: type[Model]
    name: str
    argument: str = "pk"
    parent: str = ""


_PAGES: Final = {
    "Connector": _Page(Connector, "connector"),
    "Environment": _Page(Environment, "environment"),
    "Service": _Page(Service, "service"),
    "Infrastructure": _Page(Infrastructure, "environment", "environment_id", "environment"),
    "Pipeline": _Page(Pipeline, "pipeline"),
    "InputSet": _Page(InputSet, "input-sets", "pipeline_id", "pipeline"),
    "Trigger": _Page(Trigger, "trigger", parent="pipeline"),
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
    """Return the kinds of resources that a reader may view in the scope of a sync and in all below it."""
    permissions = get_permissions_over_scope(reader, sync.scope)
    return frozenset(kind for kind, permission in _VIEW_PERMISSIONS.items() if permission in permissions)


def hide_difference(row: DifferingRow, viewable_kinds: frozenset[str]) -> DifferingRow:
    """Return a row, without its difference if the reader may not view its kind."""
    if row.kind not in viewable_kinds:
        row.difference = ""
    return row


def list_resource_urls(rows: Iterable[GitSyncResource], viewable_kinds: frozenset[str]) -> dict[Key, str]:
    """Return the URLs of existing resources of viewable kinds; one query for each kind."""
    keys: dict[str, list[Key]] = {}
    for row in rows:
        if row.kind in viewable_kinds:
            keys.setdefault(row.kind, []).append(build_key(row))
    return {key: url for kind, of_kind in keys.items() for key, url in _list_urls(kind, of_kind)}


def _list_urls(kind: str, keys: Collection[Key]) -> Iterator[tuple[Key, str]]:
    page = _PAGES[kind]
    owner = f"{page.parent}__" if page.parent else ""
    columns = (f"{owner}scope__path", "identifier", f"{owner}identifier", page.argument)
    rows = page.model._default_manager.filter(identifier__in={key.identifier for key in keys})
    for path, identifier, parent, argument in rows.values_list(*columns):
        key = Key(kind, get_scope_name(path), identifier, parent if page.parent else "")
        if key in keys:
            yield key, reverse(page.name, args=[argument])
