"""The load balancer that the pretend account has from the first start, ready for blue/green deployments."""

from dataclasses import dataclass
from typing import Any

from moto.elbv2 import elbv2_backends
from moto.elbv2.models import ELBv2Backend, FakeListener, FakeTargetGroup

BALANCER = "demo"
# The demo's containers listen there, and both groups of a pair have the port of the container (R226).
CONTAINER_PORT = 80
DRAIN_SECONDS = 60
PATH = "/api/*"
PATH_PRIORITY = 10


@dataclass(frozen=True)
class ListenerSeed:
    """A listener with its default rule and one for a path; the groups are those each of them forwards to."""

    arn: str
    port: int
    default_rule_arn: str
    target_group: str
    path: str
    path_rule_arn: str
    path_target_group: str


@dataclass(frozen=True)
class BalancerSeed:
    """The load balancer, its production and stage listeners, and its target groups' ARNs by name."""

    arn: str
    prod_listener: ListenerSeed
    stage_listener: ListenerSeed
    target_groups: dict[str, str]


def plant_balancer(
    account: str, region: str, *, vpc: str, subnets: tuple[str, ...], security_group: str
) -> BalancerSeed:
    """Make the load balancer and two pairs of target groups: for the default rules, for the path rules.

    The path has groups of its own, so that swapping one pair leaves the other's traffic where it is.
    """
    elb = elbv2_backends[account][region]
    balancer = elb.create_load_balancer(BALANCER, [security_group], list(subnets))
    groups = {name: _group(elb, vpc, name) for name in ("target1", "target2", "api1", "api2")}
    return BalancerSeed(
        arn=balancer.arn,
        prod_listener=_listener(elb, balancer.arn, 80, (groups["target1"], groups["api1"])),
        stage_listener=_listener(elb, balancer.arn, 8080, (groups["target2"], groups["api2"])),
        target_groups={name: group.arn for name, group in groups.items()},
    )


def _group(elb: ELBv2Backend, vpc: str, name: str) -> FakeTargetGroup:
    group = elb.create_target_group(
        name,
        vpc_id=vpc,
        protocol="HTTP",
        protocol_version="HTTP1",
        port=str(CONTAINER_PORT),
        target_type="ip",
        healthcheck_protocol="HTTP",
        healthcheck_port="traffic-port",
        healthcheck_path="/",
        # moto compares it with the time-out as texts: two digits would be less than one.
        healthcheck_interval_seconds="8",
        healthcheck_timeout_seconds="5",
        healthcheck_enabled="true",
        healthy_threshold_count="3",
        unhealthy_threshold_count="2",
        matcher={"HttpCode": "200"},
    )
    group.attributes["deregistration_delay.timeout_seconds"] = str(DRAIN_SECONDS)
    return group


def _listener(
    elb: ELBv2Backend, balancer_arn: str, port: int, groups: tuple[FakeTargetGroup, FakeTargetGroup]
) -> ListenerSeed:
    group, path_group = groups
    listener = elb.create_listener(balancer_arn, "HTTP", str(port), "", None, [_forward(group)])
    elb.create_rule(listener.arn, _conditions(), PATH_PRIORITY, [_forward(path_group)])
    path_rule, default_rule = _rules(listener)
    return ListenerSeed(
        arn=listener.arn,
        port=port,
        default_rule_arn=default_rule,
        target_group=group.arn,
        path=PATH,
        path_rule_arn=path_rule,
        path_target_group=path_group.arn,
    )


def _conditions() -> list[dict[str, Any]]:
    return [{"Field": "path-pattern", "PathPatternConfig": {"Values": [PATH]}}]


def _forward(group: FakeTargetGroup) -> dict[str, str]:
    return {"Type": "forward", "TargetGroupArn": group.arn}


def _rules(listener: FakeListener) -> tuple[str, str]:
    """The ARNs of the rule for the path and of the default rule."""
    by_default = {rule.is_default: rule.arn for rule in listener.rules.values()}
    return by_default[False], by_default[True]
