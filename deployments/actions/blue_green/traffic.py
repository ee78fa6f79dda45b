"""What the steps of a blue/green deployment share: which rules, which groups, who receives production."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from aws.elb_types import Listener
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
    balancer: str = ""

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


def live_groups(rollout: Rollout, traffic: Traffic) -> dict[str, str]:
    """The groups that any rule of the load balancer but the stage rule feeds, and that rule in words.

    What is not known to be stage is production.
    """
    live: dict[str, str] = {}
    for listener in rollout.elb.listeners(traffic.balancer):
        for route in _routes_of(rollout, traffic, listener):
            is_stage = (route.listener, route.rule) == (traffic.stage.listener, traffic.stage.rule)
            if not is_stage or traffic.is_one_rule:
                live |= {group: route.words() for group in route.groups}
    return live


def _routes_of(rollout: Rollout, traffic: Traffic, listener: Listener) -> list[Route]:
    if not traffic.has_weights:
        return [Route(listener.arn, listener.port, "", True, [], listener.actions)]
    return [
        Route(listener.arn, listener.port, rule.arn, rule.is_default, rule.conditions, rule.actions)
        for rule in rollout.elb.rules(listener.arn)
    ]


def other_rule_to(rollout: Rollout, service: EcsService) -> str:
    """The rule, in words, that still leads to a service that the prod rule has left; empty if none does."""
    traffic = traffic_of(rollout)
    if traffic.is_shared or set(groups_of(service.raw)) & set(read_route(rollout, traffic.prod).groups):
        return ""
    live = live_groups(rollout, traffic)
    return next((live[group] for group in groups_of(service.raw) if group in live), "")


def refuse_production(rollout: Rollout, service: EcsService, doing: str) -> None:
    """Stop hard where `service` receives production traffic at this moment (N08).

    With one target group behind both rules only tasks tell: a service without any receives nothing.
    """
    traffic = traffic_of(rollout)
    live = live_groups(rollout, traffic)
    hit = [group for group in groups_of(service.raw) if group in live]
    if not hit or (service.running == 0 and service.desired == 0):
        return
    if traffic.is_shared and not _would_leave_nothing(rollout, service):
        return
    raise ActionFailed(
        "RECEIVES_PRODUCTION",
        f"Service {service.name} receives production traffic: the {live[hit[0]]} forwards to {hit[0]}, "
        f"where its {service.running} tasks are registered. Slipway refuses {doing}. Check which ECS service "
        "is live, correct the listener rules or the BG_VERSION tags in AWS, and run the pipeline again.",
    )


def _would_leave_nothing(rollout: Rollout, service: EcsService) -> bool:
    """Whether no other ECS service of the pair has running tasks."""
    names = [name for name in rollout.recall("pair")["names"] if name != service.name]
    others = rollout.ecs.describe_services(rollout.cluster, names)
    return not any(one.is_active and one.running for one in others)
