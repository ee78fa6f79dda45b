"""Live updates of clusters, and of the progress of a requested sync."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Count, Max, Q

from catalog.models import Infrastructure, Service
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from rbac.policy import ResourceLocation
from web.live import (
    Audience,
    TopicSnapshot,
    TopicSource,
    audience_of_rows,
    audience_of_scopes,
    publish_change_on_commit,
)
from web.live.sources import parse_primary_keys

CLUSTER_SOURCE_NAME: Final = "clusters"
VIEW_ENVIRONMENT: Final = "core_environment_view"
VIEW_SERVICE: Final = "core_service_view"
_LOCATION_COLUMNS: Final = ("environment__scope_id", "environment__identifier")


def publish_clusters_changed(*clusters: int) -> None:
    """Publish a change of these clusters after the current transaction; by their keys."""
    publish_change_on_commit(CLUSTER_SOURCE_NAME, *clusters)


@dataclass
class _InfrastructureView:
    """The part of a cluster that an infrastructure shows."""

    place: ResourceLocation
    services: set[int] = field(default_factory=set)
    tasks: list[Hashable] = field(default_factory=list)


def read_cluster_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the snapshots of these clusters, or of all, by infrastructure; four queries."""
    rows = (
        SyncedCluster.objects.all()
        if keys is None
        else SyncedCluster.objects.filter(pk__in=parse_primary_keys(SyncedCluster, keys))
    )
    clusters = {view.pk: view for view in rows}
    shared = _read_infrastructure_views(clusters.values())
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, cluster in clusters.items():
        snapshots[str(pk)] = tuple(
            TopicSnapshot(
                Audience(view.place, VIEW_ENVIRONMENT),
                (_read_cluster_state(cluster), tuple(view.tasks)),
                frozenset(
                    {
                        f"infrastructure:{infrastructure}",
                        *(f"instances-of:{service}" for service in view.services),
                    }
                ),
                list_topic="instances",
                age=(cluster.synced_at, cluster.due_at),
            )
            for infrastructure, view in shared[pk].items()
        )
    return snapshots


def _read_cluster_state(cluster: SyncedCluster) -> Hashable:
    """Return the state that pages show at once; progress only for a requested sync."""
    requested_at, synced_at = cluster.sync_requested_at, cluster.synced_at
    is_requested = requested_at is not None and (synced_at is None or synced_at < requested_at)
    phase = (cluster.cursor or {}).get("phase") if is_requested else None
    denied_reads = tuple(str(entry) for entry in cluster.denied_reads)
    return cluster.failure, cluster.failure_step, denied_reads, is_requested, phase, synced_at is None


def _read_infrastructure_views(
    clusters: Iterable[SyncedCluster],
) -> dict[int, dict[int, _InfrastructureView]]:
    """Return the views by cluster and infrastructure, of named clusters and of running services."""
    by_location = {(item.connector_id, item.region, item.cluster): item.pk for item in clusters}
    keys = set(by_location.values())
    views: dict[int, dict[int, _InfrastructureView]] = defaultdict(dict)
    infrastructures = Infrastructure.objects.filter(
        connector__in={location[0] for location in by_location},
        cluster__in={location[2] for location in by_location},
    )
    for pk, connector, region, cluster, *location in infrastructures.values_list(
        "pk", "connector_id", "region", "cluster", *_LOCATION_COLUMNS
    ):
        if (cluster_id := by_location.get((connector, region, cluster))) is not None:
            views[cluster_id][pk] = _InfrastructureView(_build_location(location))
    ecs_services = EcsServiceRecord.objects.filter(cluster__in=keys, gone_at=None).exclude(
        infrastructure=None
    )
    columns = (
        "cluster_id",
        "infrastructure_id",
        "service_id",
        *(f"infrastructure__{item}" for item in _LOCATION_COLUMNS),
    )
    for cluster_id, infrastructure, service, *location in ecs_services.values_list(*columns).distinct():
        view = views[cluster_id].setdefault(infrastructure, _InfrastructureView(_build_location(location)))
        if service is not None:
            view.services.add(service)
    for cluster_id, infrastructure, *counts in _count_tasks(keys):
        if infrastructure in views[cluster_id]:
            views[cluster_id][infrastructure].tasks.append(tuple(counts))
    return views


def _build_location(columns: Collection[Any]) -> ResourceLocation:
    scope, environment = columns
    return ResourceLocation(scope, {"environment": environment})


def _count_tasks(clusters: Collection[int]) -> Iterable[tuple[Any, ...]]:
    kinds = ("cluster_id", "ecs_service__infrastructure_id", "last_status", "desired_status", "health")
    running = ServiceInstance.objects.filter(
        Q(stopped_at=None) & ~Q(ecs_service__infrastructure=None), cluster__in=clusters
    )
    counted = running.values_list(*kinds).annotate(count=Count("pk"), newest=Max("pk"))
    return counted.order_by(*kinds)


CLUSTER_SOURCE: Final = TopicSource(
    CLUSTER_SOURCE_NAME,
    topics={
        "instances": audience_of_scopes,
        "instances-of": audience_of_rows(Service, VIEW_SERVICE),
        "infrastructure": audience_of_rows(Infrastructure, VIEW_ENVIRONMENT),
    },
    read_snapshots=read_cluster_snapshots,
)
