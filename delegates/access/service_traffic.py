"""Traffic of an ECS service: how ECS deploys it, the rules that lead to it, and target groups to choose."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws.apis.ecs import EcsClient
from aws.apis.elb import ElbClient, Listener, LoadBalancer, TargetGroup
from aws.caller import Caller
from delegates.access.load_balancers import ListenerRuleOption, fetch_listener_rules

MOST_BALANCERS: Final = 5
# Fields of DescribeServices that decide how a service can be deployed.
_FIELDS: Final = (
    "serviceName",
    "status",
    "schedulingStrategy",
    "deploymentController",
    "deploymentConfiguration",
    "loadBalancers",
    "desiredCount",
    "runningCount",
    "pendingCount",
)


@dataclass(frozen=True)
class RuleRoute:
    """A listener rule with the weights of its target groups; `rule` is empty if the listener has none "
    "(NLB)."""

    balancer: str
    listener: str
    rule: str
    is_default: bool
    title: str
    weights: Mapping[str, int]


@dataclass(frozen=True)
class TargetGroupRow:
    """A target group that ECS could register tasks in; `is_used` if a load balancer forwards to it."""

    arn: str
    name: str
    port: int
    is_used: bool


@dataclass(frozen=True)
class ServiceTraffic:
    """An ECS service with its blue/green halves, the rules of its load balancers, and similar target groups.

    `services` have fields of DescribeServices; of deployments and task sets only what tells them apart.
    """

    services: tuple[dict[str, Any], ...]
    routes: tuple[RuleRoute, ...]
    groups: tuple[TargetGroupRow, ...]


def build_traffic_subject(cluster: str, service: str) -> str:
    """Return the subject of a lookup of a service and its blue/green halves."""
    return f"{cluster}/{service}"


def fetch_service_traffic(caller: Caller, subject: str) -> list[ServiceTraffic]:
    """Return the traffic of the services in a subject. Raises `AwsError`."""
    cluster, name = subject.split("/")
    names = [name, f"{name}__1", f"{name}__2"]
    raw = EcsClient(caller).describe_raw_services(cluster, names)
    services = tuple(_select_fields(row) for row in raw if row.get("status") == "ACTIVE")
    used = {group for service in services for group in list_registered_groups(service)}
    if not used:
        return [ServiceTraffic(services, (), ())]
    elb = ElbClient(caller)
    groups = elb.list_target_groups()
    balancers = sorted({arn for group in groups if group.arn in used for arn in group.load_balancers})
    routes = tuple(
        route for arn in balancers[:MOST_BALANCERS] for route in _list_routes(elb, elb.get_load_balancer(arn))
    )
    return [ServiceTraffic(services, routes, tuple(_list_similar_groups(groups, used)))]


def list_registered_groups(service: Mapping[str, Any]) -> list[str]:
    """Return the target groups of a service and of its task sets, each once."""
    parts = [service, *(service.get("taskSets") or ())]
    balancers = [balancer for part in parts for balancer in part.get("loadBalancers") or ()]
    names = [balancer.get("targetGroupArn") for balancer in balancers]
    names += [
        (balancer.get("advancedConfiguration") or {}).get("alternateTargetGroupArn") for balancer in balancers
    ]
    return list(dict.fromkeys(name for name in names if name))


def _select_fields(service: Mapping[str, Any]) -> dict[str, Any]:
    deployments = [{"status": row.get("status", "")} for row in service.get("deployments") or ()]
    task_sets = [
        {"status": row.get("status", ""), "loadBalancers": row.get("loadBalancers") or []}
        for row in service.get("taskSets") or ()
    ]
    selected = {name: service[name] for name in _FIELDS if name in service}
    return {**selected, "deployments": deployments, "taskSets": task_sets}


def _list_routes(elb: ElbClient, balancer: LoadBalancer) -> Iterator[RuleRoute]:
    for listener in elb.list_listeners(balancer.arn):
        for rule in fetch_listener_rules(elb.caller, listener.arn):
            weights = {target.arn: target.weight for target in rule.targets}
            title = _describe_rule(listener, rule)
            yield RuleRoute(balancer.name, listener.arn, rule.arn, rule.is_default, title, weights)


def _describe_rule(listener: Listener, rule: ListenerRuleOption) -> str:
    conditions = "default rule" if rule.is_default else " and ".join(rule.conditions)
    groups = ", ".join(
        f"{target.name} ({target.weight})" if len(rule.targets) > 1 else target.name
        for target in rule.targets
    )
    return f"{listener.protocol} {listener.port}, {conditions}: {groups or 'no target group'}"


def _list_similar_groups(groups: Sequence[TargetGroup], used: set[str]) -> Iterator[TargetGroupRow]:
    """Yield the target groups that can take over from those in use: of the same network and kind."""
    kinds = {(group.vpc, group.protocol, group.target_type) for group in groups if group.arn in used}
    for group in sorted(groups, key=lambda row: row.name):
        if (group.vpc, group.protocol, group.target_type) in kinds:
            yield TargetGroupRow(group.arn, group.name, group.port, bool(group.load_balancers))
