"""Blue/green pairs of ECS services, from the rows of sync."""

from collections.abc import Iterable, Mapping
from typing import Any

from inventory.adoption.manifests import get_base_name, get_partner_name, is_blue_green_half
from inventory.adoption.traffic.options import TrafficPair
from inventory.models.instances import EcsServiceRecord
from steps.actions.blue_green.traffic import list_target_groups


def is_pair_half(ecs_service: EcsServiceRecord) -> bool:
    """Return whether an ECS service is one half of a pair."""
    return is_blue_green_half(ecs_service.name, ecs_service.description)


def get_partner(ecs_service: EcsServiceRecord) -> EcsServiceRecord | None:
    """Return the other half of a pair, if it exists."""
    if not is_pair_half(ecs_service):
        return None
    rows = EcsServiceRecord.objects.filter(cluster=ecs_service.cluster_id, gone_at=None, status="ACTIVE")
    return rows.filter(name=get_partner_name(ecs_service.name)).first()


def get_reserved_arn(ecs_service: EcsServiceRecord) -> str:
    """Return the ARN that an adoption reserves, for a pair without the number."""
    return get_base_name(ecs_service.arn) if is_pair_half(ecs_service) else ecs_service.arn


def list_pair_target_groups(rows: Iterable[EcsServiceRecord]) -> list[str]:
    """Return the target groups of all pairs among these services."""
    arns: set[str] = set()
    for ecs_service in rows:
        if is_pair_half(ecs_service):
            partner = get_partner(ecs_service)
            arns |= {
                *list_target_groups(ecs_service.description),
                *(list_target_groups(partner.description) if partner else ()),
            }
    return sorted(arns)


def build_traffic_pair(ecs_service: EcsServiceRecord, task_definition: Mapping[str, Any]) -> TrafficPair:
    """Build the pair for the search of traffic options."""
    partner = get_partner(ecs_service)
    pair_keys = {ecs_service.pk, partner.pk if partner else ecs_service.pk}
    other_services = EcsServiceRecord.objects.filter(cluster=ecs_service.cluster_id, gone_at=None).exclude(
        pk__in=pair_keys
    )
    load_balancers = other_services.values_list("description__loadBalancers", flat=True)
    ports = {
        int(mapping["containerPort"])
        for container in task_definition.get("containerDefinitions") or ()
        for mapping in container.get("portMappings") or ()
        if mapping.get("containerPort")
    }
    return TrafficPair(
        group=list_target_groups(ecs_service.description)[0],
        partner=next(iter(list_target_groups(partner.description)), "") if partner else "",
        ports=frozenset(ports),
        used_groups=frozenset(
            arn
            for entries in load_balancers
            if entries
            for arn in list_target_groups({"loadBalancers": entries})
        ),
    )
