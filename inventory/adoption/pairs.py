"""Blue/green pairs of ECS services, as sync has read them."""

from collections.abc import Iterable, Mapping
from typing import Any

from inventory.adoption.manifests import get_base_name, get_partner_name, is_blue_green_half
from inventory.adoption.traffic.options import TrafficPair
from inventory.models.instances import EcsServiceRecord
from steps.actions.blue_green.traffic import list_target_groups


def is_pair_half(seen: EcsServiceRecord) -> bool:
    """Whether an ECS service is one of a pair."""
    return is_blue_green_half(seen.name, seen.description)


def get_partner(seen: EcsServiceRecord) -> EcsServiceRecord | None:
    """The other one of a pair, where it is there."""
    if not is_pair_half(seen):
        return None
    rows = EcsServiceRecord.objects.filter(cluster=seen.cluster_id, gone_at=None, status="ACTIVE")
    return rows.filter(name=get_partner_name(seen.name)).first()


def get_reserved_arn(seen: EcsServiceRecord) -> str:
    """What is taken over with an ECS service: its ARN, of a pair without the number."""
    return get_base_name(seen.arn) if is_pair_half(seen) else seen.arn


def list_pair_target_groups(rows: Iterable[EcsServiceRecord]) -> list[str]:
    """The target groups of those among them that are of pairs, and of their partners."""
    found: set[str] = set()
    for one in rows:
        if is_pair_half(one):
            partner = get_partner(one)
            found |= {
                *list_target_groups(one.description),
                *(list_target_groups(partner.description) if partner else ()),
            }
    return sorted(found)


def build_traffic_pair(seen: EcsServiceRecord, task_definition: Mapping[str, Any]) -> TrafficPair:
    """What its traffic is judged by."""
    partner = get_partner(seen)
    mine = {seen.pk, partner.pk if partner else seen.pk}
    others = EcsServiceRecord.objects.filter(cluster=seen.cluster_id, gone_at=None).exclude(pk__in=mine)
    answers = others.values_list("description__loadBalancers", flat=True)
    ports = {
        int(mapping["containerPort"])
        for container in task_definition.get("containerDefinitions") or ()
        for mapping in container.get("portMappings") or ()
        if mapping.get("containerPort")
    }
    return TrafficPair(
        group=list_target_groups(seen.description)[0],
        partner=next(iter(list_target_groups(partner.description)), "") if partner else "",
        ports=frozenset(ports),
        taken=frozenset(arn for one in answers if one for arn in list_target_groups({"loadBalancers": one})),
    )
