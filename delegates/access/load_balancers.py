"""Load balancers, listeners and rules to choose from (R232), by kind of lookup."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aws.apis.elb import ElbClient, describe_conditions, get_target_group_weights
from aws.caller import Caller
from delegates.models import LookupRequest
from web.http.problems import BadInput

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


LookupOptions = list[dict[str, Any]]
_KINDS = LookupRequest.Kind
LOOKUPS: Mapping[str, Callable[[Caller, str], list[Any]]] = {
    _KINDS.BALANCERS: fetch_load_balancers,
    _KINDS.LISTENERS: fetch_listeners,
    _KINDS.RULES: fetch_listener_rules,
}
# ARN patterns of the subjects, because they become part of calls with credentials.
_SUBJECTS = {
    _KINDS.LISTENERS: ("load_balancer", "loadbalancer"),
    _KINDS.RULES: ("listener", "listener"),
}


def fetch_options(kind: str, caller: Caller, subject: str) -> LookupOptions:
    """Return the resources that a caller can list, as JSON. Raises `AwsError`."""
    return [asdict(option) for option in LOOKUPS[kind](caller, subject)]


def validate_subject(kind: str, subject: str) -> str:
    """Return the ARN in the subject of a query. Raises `BadInput` for any other text."""
    if kind not in _SUBJECTS:
        return ""
    name, word = _SUBJECTS[LookupRequest.Kind(kind)]
    pattern = rf"arn:aws[a-z-]*:elasticloadbalancing:[a-z0-9-]+:\d{{12}}:{word}/[A-Za-z0-9/_-]{{1,300}}"
    if re.fullmatch(pattern, subject):
        return subject
    message = f"is not the ARN of a {name.replace('_', ' ')}" if subject else "is missing"
    raise BadInput("Enter an ARN.", errors=[{"path": name, "message": message}])
