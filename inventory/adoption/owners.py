"""Owners of ECS services by adoption, by blue/green pair, or through another connector."""

from collections.abc import Mapping, Sequence
from typing import Final

from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from catalog.models import Service
from deployments.models import StageExecution
from inventory.adoption.manifests import get_base_name, get_partner_name
from inventory.adoption.pairs import get_reserved_arn, is_pair_half
from inventory.drift.desired_state import strip_name_suffix
from inventory.models.adoption import Adoption
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from rbac.policy import Principal, filter_visible

OwnerPair = tuple[int | None, int | None]


def get_adoption_owners(cluster: SyncedCluster, names: Sequence[str]) -> Mapping[str, OwnerPair]:
    """The keys of service and infrastructure, by the names of ECS services; three queries for all of them."""
    beside = {name: strip_name_suffix(name) for name in names if strip_name_suffix(name) != name}
    return {**_get_adopted_owners(cluster, names), **_get_base_owners(cluster, beside)}


def _get_base_owners(cluster: SyncedCluster, beside: Mapping[str, str]) -> dict[str, OwnerPair]:
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


def _get_adopted_owners(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, OwnerPair]:
    # The two of a pair are taken over together.
    partners = {get_partner_name(name): name for name in names if strip_name_suffix(name) != name}
    rows = Adoption.objects.filter(
        ecs_service__cluster=cluster,
        ecs_service__name__in={*names, *partners},
        state=Adoption.State.ADOPTED,
        service__isnull=False,
    ).select_related("ecs_service")
    found: dict[str, OwnerPair] = {}
    for row in rows:
        mine = [
            row.ecs_service.name,
            *([partners.get(row.ecs_service.name, "")] if is_pair_half(row.ecs_service) else []),
        ]
        found |= {name: (row.service_id, row.infrastructure_id) for name in mine if name in names}
    return found


VIEW_SERVICE: Final = "core_service_view"


def annotate_other_owners(rows: QuerySet[EcsServiceRecord]) -> QuerySet[EcsServiceRecord]:
    """The same rows, each with `is_elsewhere`: whether another connector's picture says who deploys it."""
    same = EcsServiceRecord.objects.filter(arn=OuterRef("arn"), service__isnull=False, gone_at=None)
    return rows.annotate(is_elsewhere=Exists(same))


def get_other_owner(seen: EcsServiceRecord) -> Service | None:
    """The service that deploys this very ECS service, or the pair that it is of."""
    held = get_reserved_arn(seen)
    arns = [held] if held == seen.arn else [f"{held}__1", f"{held}__2"]
    same = EcsServiceRecord.objects.filter(arn__in=arns, service__isnull=False, gone_at=None)
    row = same.select_related("service__scope").order_by("pk").first()
    if row is not None:
        return row.service
    cluster = seen.cluster
    names = {seen.name} if held == seen.arn else {get_base_name(seen.name)}
    stages = StageExecution.objects.filter(
        Q(account=cluster.account) & ~Q(account=""),
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=names,
        service__isnull=False,
    )
    latest = stages.select_related("service__scope").order_by("-pk").first()
    return latest.service if latest else None


def describe_other_owner(owner: Service, reader: Principal) -> str:
    """Who deploys it, for somebody who may not see everything."""
    if filter_visible(reader, VIEW_SERVICE, Service.objects.filter(pk=owner.pk)).exists():
        return f"Service {owner.identifier} of {owner.scope.path} deploys it already. Use its pipelines."
    return (
        "A service of another project, which you may not see, deploys it already. Ask an administrator for "
        "access to it, or to give it up."
    )
