"""Fetches the files of manifests that lie elsewhere for somebody who looks at what counts in a place."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws.errors import AwsError
from catalog.effective.resolution import Overridden, Row
from catalog.effective.variables import expressions
from catalog.manifests.fetching import brought_in
from catalog.manifests.places import beside, is_wanting
from catalog.manifests.store_connectors import settled
from catalog.models import Infrastructure
from connectors.downstream import lacking, needs_of_connector
from connectors.models import Connector
from delegates.doors import DoorClosed
from delegates.errands import FETCH_FILES, SERVICE, SiteCaller, open_site
from delegates.inquiries import files_by_delegate
from delegates.models import Inquiry
from rbac.models import Scope, User
from steps.actions.base import ActionFailed


class _StillAsked(Exception):
    """A delegate is fetching; `inquiry` says how far that is."""

    def __init__(self, inquiry: Inquiry) -> None:
        super().__init__(inquiry.reason)
        self.inquiry = inquiry


def fetched_rows(found: Overridden, rows: list[Row], scope: Scope, reader: User) -> list[Row]:
    """The manifests with their files as they are now; `trouble` of one says why they could not be had.

    Where a delegate fetches them, `waits` says how far that is until they are there, and `topics` what a
    page hears of it by: ask the same again.
    A reader who may not use a connector gets nothing that it leads to (R082).
    """
    known, rows = _known(found), settled(rows, scope)
    for group in list(_groups(rows)):
        try:
            for number, row in brought_in(rows, [group], known, lambda asked: _fetch(asked, reader)):
                rows[number] = row
        except _StillAsked as asked:
            for number in group:
                waits = {"waits": asked.inquiry.reason, "topics": asked.inquiry.topics}
                rows[number] = {**rows[number], **waits}
        except (ActionFailed, DoorClosed, AwsError) as problem:
            for number in group:
                rows[number] = {**rows[number], "trouble": str(problem)}
    return rows


def _groups(rows: list[Row]) -> Iterator[list[int]]:
    taken: set[int] = set()
    for number, row in enumerate(rows):
        if is_wanting(row) and number not in taken:
            group = [rows.index(dict(one)) for one in beside(rows, row)]
            taken |= set(group)
            yield group


def _fetch(asked: Mapping[str, Any], reader: User) -> dict[str, Any]:
    connector = Connector.objects.select_related("scope", "secret__scope").get(pk=asked["connector"])
    if lacks := lacking(reader, needs_of_connector(connector)):
        raise DoorClosed(lacks[0].sentence)
    way = open_site(connector)
    if isinstance(way, SiteCaller):
        return way.call(SERVICE, FETCH_FILES, asked)
    found = files_by_delegate(actor=reader, connector=connector, asked=asked)
    if isinstance(found, Inquiry):
        raise _StillAsked(found)
    return found


def _known(found: Overridden) -> dict[str, Any]:
    """What the place of a manifest may name and no run has to say."""
    place = found.infrastructure
    return {
        **expressions({}, *found.values),
        "service": {"name": found.service.name, "identifier": found.service.identifier},
        "env": {"name": found.environment.name, "identifier": found.environment.identifier},
        "infra": _of_place(place) if place else {},
    }


def _of_place(place: Infrastructure) -> dict[str, str]:
    named = {"name": place.name, "identifier": place.identifier}
    # Of a dynamic one only a run knows more.
    return named if place.is_dynamic else {**named, "region": place.region}
