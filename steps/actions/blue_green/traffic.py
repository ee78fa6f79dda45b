"""Production and stage traffic of a blue/green deployment: listener pairs, live target groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aws.apis.ecs_types import EcsService
from aws.apis.elb import Listener
from steps.actions.base import ActionFailed
from steps.actions.blue_green.listener_rules import ListenerRoute, read_route
from steps.actions.context import EarlierStep, StepContext

CREATE_STEP_TYPE = "EcsBlueGreenCreateService"


@dataclass(frozen=True)
class ListenerPair:
    """A prod and a stage rule with their targets when the deployment began.

    `port` is that of `stage_group`, the target group of the new version.
    """

    prod: ListenerRoute
    stage: ListenerRoute
    stage_group: str
    port: int
    has_weights: bool
    balancer: str

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        routes = {name: ListenerRoute.from_record(record[name]) for name in ("prod", "stage")}
        return cls(**{**record, **routes})

    def to_record(self) -> dict[str, Any]:
        fields = {"stage_group": self.stage_group, "port": self.port, "has_weights": self.has_weights}
        routes = {"prod": self.prod.to_record(), "stage": self.stage.to_record()}
        return {**fields, **routes, "balancer": self.balancer}

    @property
    def is_shared(self) -> bool:
        """Return whether both rules forward to one target group: then there is nothing to swap (R248)."""
        return self.stage_group in self.prod.groups


@dataclass(frozen=True)
class BlueGreenTraffic:
    """All pairs of rules that a release swaps together: at least one, the step's own first."""

    pairs: tuple[ListenerPair, ...]

    @property
    def prod_groups(self) -> list[str]:
        """Return the target groups that received production when the deployment began."""
        return list(dict.fromkeys(group for pair in self.pairs for group in pair.prod.groups))

    @property
    def stage_groups(self) -> list[str]:
        """Return the target groups that the new version is registered in."""
        return list(dict.fromkeys(pair.stage_group for pair in self.pairs))

    @property
    def is_shared(self) -> bool:
        """Return whether there is nothing to swap; it is the same for all pairs."""
        return self.pairs[0].is_shared

    @property
    def prod_pairs(self) -> list[ListenerPair]:
        """Return the pairs, one for each prod rule."""
        return list({_get_route_key(pair.prod): pair for pair in self.pairs}.values())

    @property
    def stage_pairs(self) -> list[ListenerPair]:
        """Return the pairs, one for each stage rule: several prod rules may have one in common."""
        return list({_get_route_key(pair.stage): pair for pair in self.pairs}.values())

    def list_moves(self) -> Iterator[tuple[str, ListenerRoute, dict[str, int]]]:
        """Yield every rule once, as Prod or Stage, with its groups after a swap; production first."""
        yield from (("Prod", pair.prod, {pair.stage_group: 1}) for pair in self.prod_pairs)
        yield from (("Stage", pair.stage, pair.prod.weights) for pair in self.stage_pairs)

    def list_routes(self) -> list[tuple[str, ListenerRoute]]:
        """Return every rule once, as Prod or Stage."""
        return [(which, route) for which, route, _ in self.list_moves()]


def _get_route_key(route: ListenerRoute) -> tuple[str, str]:
    return route.listener, route.rule


def load_traffic(context: StepContext | EarlierStep) -> BlueGreenTraffic:
    """Load the traffic that this step or an earlier one saved for rollback."""
    return BlueGreenTraffic(
        tuple(ListenerPair.from_record(record) for record in context.load_for_rollback("traffic"))
    )


def list_target_groups(raw: Mapping[str, Any]) -> list[str]:
    """Return the target groups that an ECS service registers its tasks in."""
    return [
        balancer["targetGroupArn"]
        for balancer in raw.get("loadBalancers", ())
        if balancer.get("targetGroupArn")
    ]


def count_healthy_targets(context: StepContext, group: str) -> int:
    """Return how many targets of a group are healthy now."""
    return sum(1 for target in context.elb.list_target_health(group) if target.state == "healthy")


def find_live_groups(context: StepContext, traffic: BlueGreenTraffic) -> dict[str, str]:
    """Return the groups that rules other than the stage rules forward to, with the rule as text.

    A rule that is not known to be stage is production.
    """
    return {group: route.describe() for route in list_live_routes(context, traffic) for group in route.groups}


def list_live_routes(context: StepContext, traffic: BlueGreenTraffic) -> list[ListenerRoute]:
    """Return every rule of the load balancers but the stage rules."""
    stages = {_get_route_key(pair.stage) for pair in traffic.pairs} - {
        _get_route_key(pair.prod) for pair in traffic.pairs
    }
    return [
        route
        for balancer, has_weights in {pair.balancer: pair.has_weights for pair in traffic.pairs}.items()
        for listener in context.elb.list_listeners(balancer)
        for route in _list_routes(context, listener, has_weights)
        if _get_route_key(route) not in stages
    ]


def is_production_route(route: ListenerRoute, pairs: Sequence[ListenerPair]) -> bool:
    """Return whether a rule is the prod rule of one of these pairs."""
    return _get_route_key(route) in {_get_route_key(pair.prod) for pair in pairs}


def _list_routes(context: StepContext, listener: Listener, has_weights: bool) -> list[ListenerRoute]:
    if not has_weights:
        return [ListenerRoute(listener.arn, listener.port, "", True, [], listener.actions)]
    return [
        ListenerRoute(listener.arn, listener.port, rule.arn, rule.is_default, rule.conditions, rule.actions)
        for rule in context.elb.list_rules(listener.arn)
    ]


def find_other_rule(context: StepContext, service: EcsService) -> str:
    """Return the other rule that still forwards to an old service; empty if none does."""
    traffic = load_traffic(context)
    groups = list_target_groups(service.raw)
    if traffic.is_shared or any(
        set(groups) & set(read_route(context, pair.prod).groups) for pair in traffic.prod_pairs
    ):
        return ""
    live = find_live_groups(context, traffic)
    return next((live[group] for group in groups if group in live), "")


def refuse_production(context: StepContext, service: EcsService, operation: str) -> None:
    """Raise `ActionFailed` if `service` receives production traffic now (N08).

    With one target group behind both rules only running tasks count.
    """
    traffic = load_traffic(context)
    live = find_live_groups(context, traffic)
    live_groups = [group for group in list_target_groups(service.raw) if group in live]
    if not live_groups or (service.running == 0 and service.desired == 0):
        return
    if traffic.is_shared and not _is_last_running_service(context, service):
        return
    raise ActionFailed(
        "RECEIVES_PRODUCTION",
        f"Service {service.name} receives production traffic: the {live[live_groups[0]]} forwards to "
        f"{live_groups[0]}, where its {service.running} tasks are registered. Slipway refuses {operation}. "
        "Check which ECS service is live, correct the listener rules or the BG_VERSION tags in AWS, and run "
        "the pipeline again.",
    )


def _is_last_running_service(context: StepContext, service: EcsService) -> bool:
    """Return whether no other ECS service of these deployments has running tasks."""
    names: Sequence[str] = [
        name for name in context.load_for_rollback("pair")["names"] if name != service.name
    ]
    other_services = context.ecs.describe_services(context.cluster, names)
    return not any(other.is_active and other.running for other in other_services)
