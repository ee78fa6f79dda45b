"""Load balancers, listeners and rules to choose from (R232)."""

from dataclasses import dataclass

from aws.apis.elb import ElbClient, describe_conditions, get_target_group_weights
from aws.caller import Caller

# A listener of a network load balancer has no rules, only default actions.
_OF_NETWORK = ":listener/net/"


@dataclass(frozen=True)
class TargetGroupOption:
    """A target group that a listener or a rule sends traffic to, and its weight among the others."""

    arn: str
    name: str
    weight: int


@dataclass(frozen=True)
class LoadBalancerOption:
    """A load balancer to choose."""

    name: str
    arn: str
    type: str
    dns_name: str


@dataclass(frozen=True)
class ListenerOption:
    """A listener to choose; `targets` are those of its default rule."""

    arn: str
    port: int
    protocol: str
    targets: tuple[TargetGroupOption, ...]


@dataclass(frozen=True)
class ListenerRuleOption:
    """Selectable listener rule with its conditions in words (R234).

    `arn` is empty for the default action of a listener without rules.
    """

    arn: str
    priority: str
    is_default: bool
    conditions: tuple[str, ...]
    targets: tuple[TargetGroupOption, ...]


def fetch_load_balancers(caller: Caller, _of: str = "") -> list[LoadBalancerOption]:
    """Return the application and network load balancers of the region, by name. Raises `AwsError`."""
    balancers = [
        balancer for balancer in ElbClient(caller).list_load_balancers() if balancer.type != "gateway"
    ]
    options = [
        LoadBalancerOption(balancer.name, balancer.arn, balancer.type, balancer.dns_name)
        for balancer in balancers
    ]
    return sorted(options, key=lambda option: option.name)


def fetch_listeners(caller: Caller, load_balancer: str) -> list[ListenerOption]:
    """Return the listeners of a load balancer, by port. Raises `AwsError`."""
    listeners = ElbClient(caller).list_listeners(load_balancer)
    options = [
        ListenerOption(
            listener.arn, listener.port, listener.protocol, _build_target_options(listener.actions)
        )
        for listener in listeners
    ]
    return sorted(options, key=lambda option: option.port)


def fetch_listener_rules(caller: Caller, listener: str) -> list[ListenerRuleOption]:
    """Return the rules of a listener in their order, the default rule last. Raises `AwsError`."""
    if _OF_NETWORK in listener:
        only = ElbClient(caller).get_listener(listener)
        return [
            ListenerRuleOption(
                "", "default", True, ("every connection",), _build_target_options(only.actions)
            )
        ]
    rules = [
        ListenerRuleOption(
            rule.arn,
            rule.priority,
            rule.is_default,
            tuple(describe_conditions(rule.conditions)),
            _build_target_options(rule.actions),
        )
        for rule in ElbClient(caller).list_rules(listener)
    ]
    return sorted(
        rules, key=lambda rule: (rule.is_default, int(rule.priority) if rule.priority.isdigit() else 0)
    )


def _build_target_options(actions: list[dict[str, object]]) -> tuple[TargetGroupOption, ...]:
    return tuple(
        TargetGroupOption(arn, _parse_group_name(arn), weight)
        for arn, weight in get_target_group_weights(actions).items()
    )


def _parse_group_name(arn: str) -> str:
    """Return the name in `arn:…:targetgroup/NAME/ID`."""
    parts = arn.split("/")
    return parts[1] if len(parts) > 1 else arn
