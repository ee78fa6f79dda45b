"""Whose an ECS service is that no execution has deployed under its name: one of a pair, or one taken over."""

from collections.abc import Mapping, Sequence

from django.db.models import Max

from deployments.models import StageExecution
from inventory.drift.desired import base_of
from inventory.drift.documents.readback import partner_name
from inventory.drift.pairs import is_half
from inventory.models.drift import Adoption
from inventory.models.instances import SyncedCluster

Owner = tuple[int | None, int | None]


def owners(cluster: SyncedCluster, names: Sequence[str]) -> Mapping[str, Owner]:
    """The keys of service and infrastructure, by the names of ECS services; three queries for all of them."""
    beside = {name: base_of(name) for name in names if base_of(name) != name}
    return {**_adopted(cluster, names), **_of_bases(cluster, beside)}


def _of_bases(cluster: SyncedCluster, beside: Mapping[str, str]) -> dict[str, Owner]:
    """Blue, green and canary belong to who deploys the one of the manifest."""
    if not beside:
        return {}
    stages = StageExecution.objects.filter(
        connector=cluster.connector_id,
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=set(beside.values()),
    )
    latest = stages.values("ecs_service").annotate(latest=Max("pk")).values_list("latest", flat=True)
    rows = StageExecution.objects.filter(pk__in=list(latest))
    known = {
        name: (service, place)
        for name, service, place in rows.values_list("ecs_service", "service", "infrastructure")
    }
    return {name: known[base] for name, base in beside.items() if base in known}


def _adopted(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, Owner]:
    # The two of a pair are taken over together.
    partners = {partner_name(name): name for name in names if base_of(name) != name}
    rows = Adoption.objects.filter(
        seen__cluster=cluster,
        seen__name__in={*names, *partners},
        state=Adoption.State.ADOPTED,
        service__isnull=False,
    ).select_related("seen")
    found: dict[str, Owner] = {}
    for row in rows:
        mine = [row.seen.name, *([partners.get(row.seen.name, "")] if is_half(row.seen) else [])]
        found |= {name: (row.service_id, row.infrastructure_id) for name in mine if name in names}
    return found
