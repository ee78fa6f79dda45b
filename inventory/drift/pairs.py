"""The two ECS services of a blue/green pair, as sync has seen them."""

from collections.abc import Iterable, Mapping
from typing import Any

from inventory.drift.documents.readback import base_name, is_of_a_pair, partner_name
from inventory.drift.traffic.fitting import Pair
from inventory.models.instances import SeenService
from steps.actions.blue_green.traffic import groups_of


def is_half(seen: SeenService) -> bool:
    """Whether an ECS service is one of a pair."""
    return is_of_a_pair(seen.name, seen.answered)


def partner_of(seen: SeenService) -> SeenService | None:
    """The other one of a pair, where it is there."""
    if not is_half(seen):
        return None
    rows = SeenService.objects.filter(cluster=seen.cluster_id, gone_at=None, status="ACTIVE")
    return rows.filter(name=partner_name(seen.name)).first()


def held_by(seen: SeenService) -> str:
    """What is taken over with an ECS service: its ARN, of a pair without the number."""
    return base_name(seen.arn) if is_half(seen) else seen.arn


def groups_to_read(rows: Iterable[SeenService]) -> list[str]:
    """The target groups of those among them that are of pairs, and of their partners."""
    found: set[str] = set()
    for one in rows:
        if is_half(one):
            partner = partner_of(one)
            found |= {*groups_of(one.answered), *(groups_of(partner.answered) if partner else ())}
    return sorted(found)


def pair_of(seen: SeenService, task_definition: Mapping[str, Any]) -> Pair:
    """What its traffic is judged by."""
    partner = partner_of(seen)
    mine = {seen.pk, partner.pk if partner else seen.pk}
    others = SeenService.objects.filter(cluster=seen.cluster_id, gone_at=None).exclude(pk__in=mine)
    answers = others.values_list("answered__loadBalancers", flat=True)
    ports = {
        int(mapping["containerPort"])
        for container in task_definition.get("containerDefinitions") or ()
        for mapping in container.get("portMappings") or ()
        if mapping.get("containerPort")
    }
    return Pair(
        group=groups_of(seen.answered)[0],
        partner=next(iter(groups_of(partner.answered)), "") if partner else "",
        ports=frozenset(ports),
        taken=frozenset(arn for one in answers if one for arn in groups_of({"loadBalancers": one})),
    )
