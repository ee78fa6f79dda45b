"""What the steps of a blue/green deployment share: which rules, which groups, who receives production."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from aws.types import EcsService
from deployments.actions.base import ActionFailed, Earlier, Rollout
from deployments.actions.blue_green.routes import Route, read_route

CREATE = "EcsBlueGreenCreateService"


@dataclass(frozen=True)
class Traffic:
    """Where production and stage traffic went when the deployment began."""

    prod: Route
    stage: Route
    stage_group: str
    prod_groups: list[str]
    port: int
    has_weights: bool

    @classmethod
    def from_memory(cls, kept: Mapping[str, Any]) -> Self:
        routes = {name: Route.from_memory(kept[name]) for name in ("prod", "stage")}
        return cls(**{**kept, **routes})

    @property
    def is_shared(self) -> bool:
        """Whether one target group stands behind both rules: then there is nothing to swap (R248)."""
        return self.stage_group in self.prod_groups

    @property
    def is_one_rule(self) -> bool:
        """Whether production and stage are one and the same rule (R235)."""
        return (self.prod.listener, self.prod.rule) == (self.stage.listener, self.stage.rule)


def traffic_of(rollout: Rollout | Earlier) -> Traffic:
    """What was remembered of the traffic, by this step or an earlier one."""
    return Traffic.from_memory(rollout.recall("traffic"))


def groups_of(raw: Mapping[str, Any]) -> list[str]:
    """The target groups that an ECS service, as AWS shows it, registers its tasks in."""
    return [one["targetGroupArn"] for one in raw.get("loadBalancers", ()) if one.get("targetGroupArn")]


def healthy_count(rollout: Rollout, group: str) -> int:
    """How many targets of a group are healthy now."""
    return sum(1 for target in rollout.elb.target_health(group) if target.state == "healthy")


def refuse_production(rollout: Rollout, service: EcsService, doing: str) -> None:
    """Stop hard where `service` receives production traffic at this moment (N08).

    With one target group behind both rules only tasks tell: a service without any receives nothing.
    """
    traffic = traffic_of(rollout)
    live = read_route(rollout, traffic.prod).groups
    hit = [group for group in groups_of(service.raw) if group in live]
    if not hit or (service.running == 0 and service.desired == 0):
        return
    if traffic.is_shared and not _would_leave_nothing(rollout, service):
        return
    raise ActionFailed(
        "RECEIVES_PRODUCTION",
        f"Service {service.name} receives production traffic: {traffic.prod.words()} forwards to {hit[0]}, "
        f"where its {service.running} tasks are registered. Slipway refuses {doing}. Check which ECS service "
        "is live, correct the listener rules or the BG_VERSION tags in AWS, and run the pipeline again.",
    )


def _would_leave_nothing(rollout: Rollout, service: EcsService) -> bool:
    """Whether no other ECS service of the pair has running tasks."""
    names = [name for name in rollout.recall("pair")["names"] if name != service.name]
    others = rollout.ecs.describe_services(rollout.cluster, names)
    return not any(one.is_active and one.running for one in others)
