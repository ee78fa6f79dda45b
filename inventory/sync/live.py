"""Live updates of pages that show what runs in clusters, and how far a requested sync is."""

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
    """After the commit under way, have pages that show what runs in these clusters look; by their keys."""
    publish_change_on_commit(CLUSTER_SOURCE_NAME, *clusters)


@dataclass
class _InfrastructureView:
    """What an infrastructure shows of one cluster."""

    place: ResourceLocation
    services: set[int] = field(default_factory=set)
    tasks: list[Hashable] = field(default_factory=list)


def read_cluster_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """How these clusters look, or all, for each infrastructure that is in one; four queries."""
    rows = (
        SyncedCluster.objects.all()
        if keys is None
        else SyncedCluster.objects.filter(pk__in=parse_primary_keys(SyncedCluster, keys))
    )
    clusters = {one.pk: one for one in rows}
    shared = _read_infrastructure_views(clusters.values())
    found: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, cluster in clusters.items():
        found[str(pk)] = tuple(
            TopicSnapshot(
                Audience(one.place, VIEW_ENVIRONMENT),
                (_read_cluster_state(cluster), tuple(one.tasks)),
                frozenset({f"infrastructure:{place}", *(f"instances-of:{each}" for each in one.services)}),
                listed_as="instances",
                fresh=(cluster.synced_at, cluster.due_at),
            )
            for place, one in shared[pk].items()
        )
    return found


def _read_cluster_state(cluster: SyncedCluster) -> Hashable:
    """What is told at once; how far a look is only where somebody asked for it."""
    asked, synced = cluster.sync_requested_at, cluster.synced_at
    is_asked_for = asked is not None and (synced is None or synced < asked)
    phase = (cluster.cursor or {}).get("phase") if is_asked_for else None
    lacking = tuple(str(one) for one in cluster.denied_reads)
    return cluster.failure, cluster.failure_step, lacking, is_asked_for, phase, synced is None


def _read_infrastructure_views(
    clusters: Iterable[SyncedCluster],
) -> dict[int, dict[int, _InfrastructureView]]:
    """By cluster and infrastructure: of those that name a cluster, and of those whose services are in it."""
    by_place = {(one.connector_id, one.region, one.cluster): one.pk for one in clusters}
    keys = set(by_place.values())
    found: dict[int, dict[int, _InfrastructureView]] = defaultdict(dict)
    named = Infrastructure.objects.filter(
        connector__in={place[0] for place in by_place}, cluster__in={place[2] for place in by_place}
    )
    for pk, connector, region, cluster, *place in named.values_list(
        "pk", "connector_id", "region", "cluster", *_LOCATION_COLUMNS
    ):
        if (of := by_place.get((connector, region, cluster))) is not None:
            found[of][pk] = _InfrastructureView(_build_location(place))
    seen = EcsServiceRecord.objects.filter(cluster__in=keys, gone_at=None).exclude(infrastructure=None)
    columns = (
        "cluster_id",
        "infrastructure_id",
        "service_id",
        *(f"infrastructure__{one}" for one in _LOCATION_COLUMNS),
    )
    for of, infrastructure, service, *place in seen.values_list(*columns).distinct():
        mine = found[of].setdefault(infrastructure, _InfrastructureView(_build_location(place)))
        if service is not None:
            mine.services.add(service)
    for of, infrastructure, *facts in _count_tasks(keys):
        if infrastructure in found[of]:
            found[of][infrastructure].tasks.append(tuple(facts))
    return found


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
    looks=read_cluster_snapshots,
)
