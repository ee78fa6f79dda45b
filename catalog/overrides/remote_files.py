"""Manifest files from Git and S3 for the view of effective manifests."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws.errors import AwsError
from catalog.manifests.fetching import fetch_groups
from catalog.manifests.locations import filter_same_location, is_unfetched, resolve_connectors
from catalog.models import Infrastructure
from catalog.overrides.override_sets import ManifestRow, ServiceOverrideSet
from catalog.overrides.variables import build_variable_expressions
from connectors.models import Connector
from connectors.required_access import find_missing_permissions, get_connector_requirements
from delegates.access.aws_access import ConnectorUnavailable
from delegates.access.lookup_requests import fetch_files_by_delegate
from delegates.access.site_calls import FETCH_FILES, SITE_SERVICE, SiteCaller, open_site_access
from delegates.models import LookupRequest
from rbac.models import Scope, User
from steps.actions.base import ActionFailed


class _LookupPending(Exception):
    """A fetch by a delegate that is not finished; `lookup` has its status."""

    def __init__(self, lookup: LookupRequest) -> None:
        super().__init__(lookup.reason)
        self.lookup = lookup


def fetch_rows(
    override_set: ServiceOverrideSet, rows: list[ManifestRow], scope: Scope, reader: User
) -> list[ManifestRow]:
    """Return the manifest rows with their current files; a row's `trouble` has the reason of a failure.

    While a delegate fetches, `waits` has its status, and `topics` the live topics of its progress. A reader
    without access to a connector gets none of its files (R082).
    """
    expression_values, rows = _build_expression_values(override_set), resolve_connectors(rows, scope)
    for group in list(_group_by_location(rows)):
        try:
            for number, row in fetch_groups(
                rows, [group], expression_values, lambda pending: _fetch_files(pending, reader)
            ):
                rows[number] = row
        except _LookupPending as pending:
            for number in group:
                waits = {"waits": pending.lookup.reason, "topics": pending.lookup.topics}
                rows[number] = {**rows[number], **waits}
        except (ActionFailed, ConnectorUnavailable, AwsError) as problem:
            for number in group:
                rows[number] = {**rows[number], "trouble": str(problem)}
    return rows


def _group_by_location(rows: list[ManifestRow]) -> Iterator[list[int]]:
    grouped: set[int] = set()
    for number, row in enumerate(rows):
        if is_unfetched(row) and number not in grouped:
            group = [rows.index(dict(match)) for match in filter_same_location(rows, row)]
            grouped |= set(group)
            yield group


def _fetch_files(params: Mapping[str, Any], reader: User) -> dict[str, Any]:
    connector = Connector.objects.select_related("scope", "secret__scope").get(pk=params["connector"])
    if lacks := find_missing_permissions(reader, get_connector_requirements(connector)):
        raise ConnectorUnavailable(lacks[0].message)
    way = open_site_access(connector)
    if isinstance(way, SiteCaller):
        return way.call(SITE_SERVICE, FETCH_FILES, params)
    files = fetch_files_by_delegate(actor=reader, connector=connector, params=params)
    if isinstance(files, LookupRequest):
        raise _LookupPending(files)
    return files


def _build_expression_values(override_set: ServiceOverrideSet) -> dict[str, Any]:
    """Build the values that the location of a manifest may use outside a run."""
    place = override_set.infrastructure
    return {
        **build_variable_expressions({}, *override_set.values),
        "service": {"name": override_set.service.name, "identifier": override_set.service.identifier},
        "env": {"name": override_set.environment.name, "identifier": override_set.environment.identifier},
        "infra": _build_infrastructure_values(place) if place else {},
    }


def _build_infrastructure_values(place: Infrastructure) -> dict[str, str]:
    values = {"name": place.name, "identifier": place.identifier}
    # Values of a dynamic infrastructure exist only in a run.
    return values if place.is_dynamic else {**values, "region": place.region}
