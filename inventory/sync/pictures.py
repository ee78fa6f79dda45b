"""How fresh the picture of each cluster is that a page shows, and whether the reader may renew it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, QuerySet

from catalog.models import Infrastructure
from connectors.models import Connector
from inventory.models.instances import SeenService, SyncedCluster, SyncPause
from inventory.sync.pausing import rests
from rbac.policy import Principal, visible_to

SYNC: Final = "core_environment_access"
VIEW_CONNECTOR: Final = "core_connector_view"
# More than a page has room for; the others are told by the infrastructures themselves.
MOST: Final = 20
# As long as looks come each minute nobody has to be told of one that is late by a little.
LATE: Final = timedelta(minutes=5)
DOING: Final[Mapping[str, str]] = {
    "services": "reading its services",
    "scaling": "reading what scales them",
    "running": "reading its tasks",
    "stopped": "reading what has stopped",
    "machines": "reading its machines",
    "activities": "reading what auto scaling did",
    "health": "reading how healthy its targets are",
    "usage": "reading CPU and memory",
}


@dataclass(frozen=True)
class Picture:
    """One cluster, why its picture is as old as it is, and the infrastructure to ask for it by."""

    cluster: SyncedCluster
    rest: SyncPause | None
    infrastructure: Infrastructure | None
    now: datetime
    # Whether the reader may look at the connector.
    opens_connector: bool

    @property
    def told(self) -> SyncedCluster | SyncPause:
        """What failed: the cluster itself, or all that rest with it."""
        return self.rest if self.rest is not None and not self.cluster.failure else self.cluster

    @property
    def is_late(self) -> bool:
        return self.cluster.synced_at is None or self.cluster.synced_at < self.now - LATE

    @property
    def doing(self) -> str:
        """What a look that is under way does now; empty while none is."""
        row, due_at = self.cluster.reading, self.cluster.due_at
        if row is None:
            asked = self.cluster.asked_at is not None and due_at is not None and due_at <= self.now
            return "waiting for its turn" if asked else ""
        return DOING.get(str(row.get("phase")), "reading")


def pictures(principal: Principal, places: QuerySet[Infrastructure], now: datetime) -> list[Picture]:
    """The pictures of the clusters of these infrastructures, the oldest first; six queries, however many."""
    named = list(places.order_by("pk").values_list("pk", "connector", "region", "cluster")[: MOST * 10])
    by_place: dict[tuple[int, str, str], list[int]] = {}
    for pk, connector, region, cluster in [*named, *_settled(named)]:
        by_place.setdefault((connector, region, cluster), []).append(pk)
    found = [row for row in _clusters(by_place) if _place(row) in by_place]
    held = rests(found)
    ways = [pk for row in found for pk in by_place[_place(row)]]
    allowed = visible_to(principal, SYNC, Infrastructure.objects.filter(pk__in=ways)).in_bulk()
    used = Connector.objects.filter(pk__in={row.connector_id for row in found})
    opened = set(visible_to(principal, VIEW_CONNECTOR, used).values_list("pk", flat=True))
    shown = [
        Picture(
            row, held.get(row.pk), _first(by_place[_place(row)], allowed), now, row.connector_id in opened
        )
        for row in found[:MOST]
    ]
    return sorted(shown, key=lambda one: one.cluster.synced_at.timestamp() if one.cluster.synced_at else 0.0)


def _settled(named: Iterable[tuple[int, int, str, str]]) -> list[tuple[int, int, str, str]]:
    """Where those are whose runs say where: by the ECS services that are theirs."""
    late = [pk for pk, _, region, cluster in named if "<+" in region + cluster]
    rows = SeenService.objects.filter(infrastructure__in=late, gone_at=None).order_by("infrastructure")
    columns = ("infrastructure", "cluster__connector", "cluster__region", "cluster__cluster")
    return [(pk or 0, *place) for pk, *place in rows.values_list(*columns).distinct()[: MOST * 10]]


def _place(row: SyncedCluster) -> tuple[int, str, str]:
    return row.connector_id, row.region, row.cluster


def _clusters(places: Iterable[tuple[int, str, str]]) -> list[SyncedCluster]:
    wanted = list(places)
    if not wanted:
        return []
    same = Q(connector__in={place[0] for place in wanted}, cluster__in={place[2] for place in wanted})
    return list(SyncedCluster.objects.select_related("connector").filter(same).order_by("pk"))


def _first(keys: Iterable[int], allowed: Mapping[int, Infrastructure]) -> Infrastructure | None:
    return next((allowed[key] for key in keys if key in allowed), None)
