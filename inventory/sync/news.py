"""What pages hear of what runs where: tasks that came or went, and how far a look that was asked for is."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Count, Max, Q

from catalog.models import Infrastructure, Service
from inventory.models.instances import SeenService, ServiceInstance, SyncedCluster
from rbac.policy import Place
from web.news import Audience, Shown, Subject, at_places, changed, in_scopes
from web.news.subjects import keys_of

SUBJECT: Final = "clusters"
VIEW: Final = "core_environment_view"
VIEW_SERVICE: Final = "core_service_view"
_PLACE: Final = ("environment__scope_id", "environment__identifier")


def cluster_changed(*clusters: int) -> None:
    """After the commit under way, have pages that show what runs in these clusters look; by their keys."""
    changed(SUBJECT, *clusters)


@dataclass
class _Shared:
    """What an infrastructure shows of one cluster."""

    place: Place
    services: set[int] = field(default_factory=set)
    tasks: list[Hashable] = field(default_factory=list)


def cluster_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How these clusters look, or all, for each infrastructure that is in one; four queries."""
    rows = (
        SyncedCluster.objects.all()
        if keys is None
        else SyncedCluster.objects.filter(pk__in=keys_of(SyncedCluster, keys))
    )
    clusters = {one.pk: one for one in rows}
    shared = _shared(clusters.values())
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, cluster in clusters.items():
        found[str(pk)] = tuple(
            Shown(
                Audience(one.place, VIEW),
                (_state(cluster), tuple(one.tasks)),
                frozenset({f"infrastructure:{place}", *(f"instances-of:{each}" for each in one.services)}),
                listed_as="instances",
                fresh=(cluster.synced_at, cluster.due_at),
            )
            for place, one in shared[pk].items()
        )
    return found


def _state(cluster: SyncedCluster) -> Hashable:
    """What is told at once; how far a look is only where somebody asked for it."""
    asked, synced = cluster.asked_at, cluster.synced_at
    is_asked_for = asked is not None and (synced is None or synced < asked)
    phase = (cluster.reading or {}).get("phase") if is_asked_for else None
    lacking = tuple(str(one) for one in cluster.lacking)
    return cluster.failure, cluster.failure_step, lacking, is_asked_for, phase, synced is None


def _shared(clusters: Iterable[SyncedCluster]) -> dict[int, dict[int, _Shared]]:
    """By cluster and infrastructure: of those that name a cluster, and of those whose services are in it."""
    by_place = {(one.connector_id, one.region, one.cluster): one.pk for one in clusters}
    keys = set(by_place.values())
    found: dict[int, dict[int, _Shared]] = defaultdict(dict)
    named = Infrastructure.objects.filter(
        connector__in={place[0] for place in by_place}, cluster__in={place[2] for place in by_place}
    )
    for pk, connector, region, cluster, *place in named.values_list(
        "pk", "connector_id", "region", "cluster", *_PLACE
    ):
        if (of := by_place.get((connector, region, cluster))) is not None:
            found[of][pk] = _Shared(_place(place))
    seen = SeenService.objects.filter(cluster__in=keys, gone_at=None).exclude(infrastructure=None)
    columns = ("cluster_id", "infrastructure_id", "service_id", *(f"infrastructure__{one}" for one in _PLACE))
    for of, infrastructure, service, *place in seen.values_list(*columns).distinct():
        mine = found[of].setdefault(infrastructure, _Shared(_place(place)))
        if service is not None:
            mine.services.add(service)
    for of, infrastructure, *facts in _tasks(keys):
        if infrastructure in found[of]:
            found[of][infrastructure].tasks.append(tuple(facts))
    return found


def _place(columns: Collection[Any]) -> Place:
    scope, environment = columns
    return Place(scope, {"environment": environment})


def _tasks(clusters: Collection[int]) -> Iterable[tuple[Any, ...]]:
    kinds = ("cluster_id", "seen__infrastructure_id", "last_status", "desired_status", "health")
    running = ServiceInstance.objects.filter(
        Q(stopped_at=None) & ~Q(seen__infrastructure=None), cluster__in=clusters
    )
    counted = running.values_list(*kinds).annotate(count=Count("pk"), newest=Max("pk"))
    return counted.order_by(*kinds)


CLUSTERS: Final = Subject(
    SUBJECT,
    topics={
        "instances": in_scopes,
        "instances-of": at_places(Service, VIEW_SERVICE),
        "infrastructure": at_places(Infrastructure, VIEW),
    },
    looks=cluster_looks,
)
