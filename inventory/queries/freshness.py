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
# The limit of a page; infrastructure pages show the others.
MAX_CLUSTERS: Final = 20
# Syncs run each minute, or each five where events announce changes, so a short delay is not worth a message.
STALE_AFTER: Final = timedelta(minutes=6)


def is_outdated(synced_at: datetime | None, now: datetime) -> bool:
    """Return whether a cluster was not synced lately, so that the state of its services is unknown."""
    return synced_at is None or synced_at < now - STALE_AFTER


PHASE_LABELS: Final[Mapping[str, str]] = {
    "services": "reading services",
    "scaling": "reading scalable targets",
    "running": "reading tasks",
    "stopped": "reading stopped tasks",
    "machines": "reading container instances",
    "daemons": "reading daemons",
    "daemon_details": "reading daemons",
    "daemon_deployments": "reading daemon deployments",
    "daemon_revisions": "reading daemon revisions",
    "activities": "reading scaling activities",
    "health": "reading target health",
    "usage": "reading CPU and memory",
}


@dataclass(frozen=True)
class ClusterFreshness:
    """The age of a cluster's data, its reason, and the infrastructure that may request a sync."""

    cluster: SyncedCluster
    pause: SyncPause | None
    infrastructure: Infrastructure | None
    now: datetime
    # Whether the reader may view the connector.
    can_view_connector: bool

    @property
    def failure_source(self) -> SyncedCluster | SyncPause:
        """Return the row with the failure: the cluster, or the shared pause."""
        return self.pause if self.pause is not None and not self.cluster.failure else self.cluster

    @property
    def is_late(self) -> bool:
        return self.cluster.synced_at is None or self.cluster.synced_at < self.now - STALE_AFTER

    @property
    def phase_label(self) -> str:
        """Return the current phase of a running sync; empty without one."""
        row, due_at = self.cluster.cursor, self.cluster.due_at
        if row is None:
            is_requested = (
                self.cluster.sync_requested_at is not None and due_at is not None and due_at <= self.now
            )
            return "queued" if is_requested else ""
        return PHASE_LABELS.get(str(row.get("phase")), "reading")


def list_cluster_freshness(
    principal: Principal, infrastructures: QuerySet[Infrastructure], now: datetime
) -> list[ClusterFreshness]:
    """Return the freshness of the clusters of these infrastructures, the oldest first; six queries."""
    locations = list(
        infrastructures.order_by("pk").values_list("pk", "connector", "region", "cluster")[
            : MAX_CLUSTERS * 10
        ]
    )
    keys_by_location: dict[tuple[int, str, str], list[int]] = {}
    for pk, connector, region, cluster in [*locations, *_resolve_run_locations(locations)]:
        keys_by_location.setdefault((connector, region, cluster), []).append(pk)
    clusters = [row for row in _list_clusters(keys_by_location) if _get_cluster_key(row) in keys_by_location]
    pauses = get_pauses(clusters)
    infrastructure_keys = [pk for row in clusters for pk in keys_by_location[_get_cluster_key(row)]]
    allowed = filter_visible(
        principal, ACCESS_ENVIRONMENT, Infrastructure.objects.filter(pk__in=infrastructure_keys)
    ).in_bulk()
    connectors = Connector.objects.filter(pk__in={row.connector_id for row in clusters})
    viewable = set(filter_visible(principal, VIEW_CONNECTOR, connectors).values_list("pk", flat=True))
    rows = [
        ClusterFreshness(
            row,
            pauses.get(row.pk),
            _get_first_allowed(keys_by_location[_get_cluster_key(row)], allowed),
            now,
            row.connector_id in viewable,
        )
        for row in clusters[:MAX_CLUSTERS]
    ]
    return sorted(
        rows, key=lambda item: item.cluster.synced_at.timestamp() if item.cluster.synced_at else 0.0
    )


def _resolve_run_locations(locations: Iterable[tuple[int, int, str, str]]) -> list[tuple[int, int, str, str]]:
    """Return the locations of infrastructures with expressions, from their ECS services."""
    dynamic = [pk for pk, _, region, cluster in locations if "<+" in region + cluster]
    rows = EcsServiceRecord.objects.filter(infrastructure__in=dynamic, gone_at=None).order_by(
        "infrastructure"
    )
    columns = ("infrastructure", "cluster__connector", "cluster__region", "cluster__cluster")
    return [
        (pk or 0, *location) for pk, *location in rows.values_list(*columns).distinct()[: MAX_CLUSTERS * 10]
    ]


def _get_cluster_key(row: SyncedCluster) -> tuple[int, str, str]:
    return row.connector_id, row.region, row.cluster


def _list_clusters(locations_: Iterable[tuple[int, str, str]]) -> list[SyncedCluster]:
    locations = list(locations_)
    if not locations:
        return []
    same = Q(
        connector__in={location[0] for location in locations},
        cluster__in={location[2] for location in locations},
    )
    return list(SyncedCluster.objects.select_related("connector").filter(same).order_by("pk"))


def _get_first_allowed(keys: Iterable[int], allowed: Mapping[int, Infrastructure]) -> Infrastructure | None:
    return next((allowed[key] for key in keys if key in allowed), None)


@dataclass(frozen=True)
class FreshnessProblem:
    """A failure of drift scans, or of the syncs they need; `is_shared` where others pause too."""

    of_sync: bool
    failure: str
    code: str
    next_step: str
    failed_at: datetime | None
    retry_at: datetime | None
    is_shared: bool


@dataclass(frozen=True)
class DriftFreshness:
    """The time of the last comparison and sync of a cluster, and current problems."""

    cluster: SyncedCluster
    scan: ClusterDriftScan | None
    problems: tuple[FreshnessProblem, ...]

    @classmethod
    def of(cls, comparison: DriftComparison) -> "DriftFreshness":
        """Load the freshness for an ECS service; four queries."""
        rows = SyncedCluster.objects.select_related("connector__scope")
        cluster = rows.get(pk=comparison.ecs_service.cluster_id)
        scan = ClusterDriftScan.objects.filter(cluster=cluster).first()
        sync_pause, drift_pause = (
            get_pauses([cluster], SYNC_OWNER).get(cluster.pk),
            get_pauses([cluster], DRIFT_OWNER).get(cluster.pk),
        )
        problems = [_build_problem(cluster, sync_pause, of_sync=True)]
        if scan is not None:
            problems.append(_build_problem(scan, drift_pause, of_sync=False))
        return cls(cluster, scan, tuple(problem for problem in problems if problem is not None))

    def serialize(self, now: datetime) -> dict[str, Any]:
        """Serialize for the API."""
        scan = self.scan
        return {
            "compared_at": scan.compared_at if scan else None,
            "age_seconds": _compute_age(scan.compared_at if scan else None, now),
            "synced_at": self.cluster.synced_at,
            "due_at": scan.due_at if scan else None,
            "under_way": scan is not None and scan.cursor is not None,
            "calls": scan.calls if scan else 0,
            "troubles": [
                {
                    "of": "SYNC" if problem.of_sync else "LOOK",
                    "failure": problem.failure,
                    "code": problem.code,
                    "next_step": problem.next_step,
                    "failed_at": problem.failed_at,
                    "again_at": problem.retry_at,
                }
                for problem in self.problems
            ],
        }


def _compute_age(moment: datetime | None, now: datetime) -> float | None:
    return (now - moment).total_seconds() if moment else None


def _build_problem(
    row: SyncedCluster | ClusterDriftScan, pause: SyncPause | None, *, of_sync: bool
) -> FreshnessProblem | None:
    # A paused cluster may not have failed itself.
    source = pause if pause is not None and not row.failure else row
    if not source.failure:
        return None
    return FreshnessProblem(
        of_sync,
        source.failure,
        source.failure_code,
        source.failure_step,
        source.failed_at,
        row.due_at,
        pause is not None,
    )
