"""Freshness of clusters in sync and drift, with failures and next steps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet

from catalog.models import Infrastructure
from connectors.models import Connector
from inventory.drift.clusters import DRIFT_OWNER
from inventory.models.drift import ClusterDriftScan, DriftComparison
from inventory.models.instances import EcsServiceRecord, SyncedCluster, SyncPause
from inventory.sync.pauses import SYNC_OWNER, get_pauses
from rbac.policy import Principal, filter_visible

ACCESS_ENVIRONMENT: Final = "core_environment_access"
VIEW_CONNECTOR: Final = "core_connector_view"
# More than a page has room for; the others are told by the infrastructures themselves.
MAX_CLUSTERS: Final = 20
# As long as looks come each minute nobody has to be told of one that is late by a little.
STALE_AFTER: Final = timedelta(minutes=5)
PHASE_LABELS: Final[Mapping[str, str]] = {
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
class ClusterFreshness:
    """One cluster, why its picture is as old as it is, and the infrastructure to ask for it by."""

    cluster: SyncedCluster
    pause: SyncPause | None
    infrastructure: Infrastructure | None
    now: datetime
    # Whether the reader may look at the connector.
    can_view_connector: bool

    @property
    def failure_source(self) -> SyncedCluster | SyncPause:
        """What failed: the cluster itself, or all that rest with it."""
        return self.pause if self.pause is not None and not self.cluster.failure else self.cluster

    @property
    def is_late(self) -> bool:
        return self.cluster.synced_at is None or self.cluster.synced_at < self.now - STALE_AFTER

    @property
    def phase_label(self) -> str:
        """What a look that is under way does now; empty while none is."""
        row, due_at = self.cluster.cursor, self.cluster.due_at
        if row is None:
            asked = self.cluster.sync_requested_at is not None and due_at is not None and due_at <= self.now
            return "waiting for its turn" if asked else ""
        return PHASE_LABELS.get(str(row.get("phase")), "reading")


def list_cluster_freshness(
    principal: Principal, places: QuerySet[Infrastructure], now: datetime
) -> list[ClusterFreshness]:
    """The pictures of the clusters of these infrastructures, the oldest first; six queries, however many."""
    named = list(
        places.order_by("pk").values_list("pk", "connector", "region", "cluster")[: MAX_CLUSTERS * 10]
    )
    by_place: dict[tuple[int, str, str], list[int]] = {}
    for pk, connector, region, cluster in [*named, *_resolve_run_locations(named)]:
        by_place.setdefault((connector, region, cluster), []).append(pk)
    found = [row for row in _list_clusters(by_place) if _get_cluster_key(row) in by_place]
    held = get_pauses(found)
    ways = [pk for row in found for pk in by_place[_get_cluster_key(row)]]
    allowed = filter_visible(
        principal, ACCESS_ENVIRONMENT, Infrastructure.objects.filter(pk__in=ways)
    ).in_bulk()
    used = Connector.objects.filter(pk__in={row.connector_id for row in found})
    opened = set(filter_visible(principal, VIEW_CONNECTOR, used).values_list("pk", flat=True))
    shown = [
        ClusterFreshness(
            row,
            held.get(row.pk),
            _get_first_allowed(by_place[_get_cluster_key(row)], allowed),
            now,
            row.connector_id in opened,
        )
        for row in found[:MAX_CLUSTERS]
    ]
    return sorted(shown, key=lambda one: one.cluster.synced_at.timestamp() if one.cluster.synced_at else 0.0)


def _resolve_run_locations(named: Iterable[tuple[int, int, str, str]]) -> list[tuple[int, int, str, str]]:
    """Where those are whose runs say where: by the ECS services that are theirs."""
    late = [pk for pk, _, region, cluster in named if "<+" in region + cluster]
    rows = EcsServiceRecord.objects.filter(infrastructure__in=late, gone_at=None).order_by("infrastructure")
    columns = ("infrastructure", "cluster__connector", "cluster__region", "cluster__cluster")
    return [(pk or 0, *place) for pk, *place in rows.values_list(*columns).distinct()[: MAX_CLUSTERS * 10]]


def _get_cluster_key(row: SyncedCluster) -> tuple[int, str, str]:
    return row.connector_id, row.region, row.cluster


def _list_clusters(places: Iterable[tuple[int, str, str]]) -> list[SyncedCluster]:
    wanted = list(places)
    if not wanted:
        return []
    same = Q(connector__in={place[0] for place in wanted}, cluster__in={place[2] for place in wanted})
    return list(SyncedCluster.objects.select_related("connector").filter(same).order_by("pk"))


def _get_first_allowed(keys: Iterable[int], allowed: Mapping[int, Infrastructure]) -> Infrastructure | None:
    return next((allowed[key] for key in keys if key in allowed), None)


@dataclass(frozen=True)
class FreshnessProblem:
    """Why the looks, or the syncs that they rest on, do not go on; `until` where they rest with others."""

    of_sync: bool
    failure: str
    code: str
    next_step: str
    failed_at: datetime | None
    retry_at: datetime | None
    is_shared: bool


@dataclass(frozen=True)
class DriftFreshness:
    """When a cluster was compared last, what sync had seen of it by then, and what is in the way."""

    cluster: SyncedCluster
    scan: ClusterDriftScan | None
    problems: tuple[FreshnessProblem, ...]

    @classmethod
    def of(cls, comparison: DriftComparison) -> "DriftFreshness":
        """That of the cluster of an ECS service; four queries."""
        rows = SyncedCluster.objects.select_related("connector__scope")
        cluster = rows.get(pk=comparison.ecs_service.cluster_id)
        compared = ClusterDriftScan.objects.filter(cluster=cluster).first()
        syncs, looks = (
            get_pauses([cluster], SYNC_OWNER).get(cluster.pk),
            get_pauses([cluster], DRIFT_OWNER).get(cluster.pk),
        )
        troubles = [_build_problem(cluster, syncs, of_sync=True)]
        if compared is not None:
            troubles.append(_build_problem(compared, looks, of_sync=False))
        return cls(cluster, compared, tuple(one for one in troubles if one is not None))

    def serialize(self, now: datetime) -> dict[str, Any]:
        """The same as the API tells it."""
        compared = self.scan
        return {
            "compared_at": compared.compared_at if compared else None,
            "age_seconds": _compute_age(compared.compared_at if compared else None, now),
            "synced_at": self.cluster.synced_at,
            "due_at": compared.due_at if compared else None,
            "under_way": compared is not None and compared.cursor is not None,
            "calls": compared.calls if compared else 0,
            "troubles": [
                {
                    "of": "SYNC" if one.of_sync else "LOOK",
                    "failure": one.failure,
                    "code": one.code,
                    "next_step": one.next_step,
                    "failed_at": one.failed_at,
                    "again_at": one.retry_at,
                }
                for one in self.problems
            ],
        }


def _compute_age(moment: datetime | None, now: datetime) -> float | None:
    return (now - moment).total_seconds() if moment else None


def _build_problem(
    row: SyncedCluster | ClusterDriftScan, rest: SyncPause | None, *, of_sync: bool
) -> FreshnessProblem | None:
    # Who rests with others may not have failed itself yet.
    told = rest if rest is not None and not row.failure else row
    if not told.failure:
        return None
    return FreshnessProblem(
        of_sync,
        told.failure,
        told.failure_code,
        told.failure_step,
        told.failed_at,
        row.due_at,
        rest is not None,
    )
