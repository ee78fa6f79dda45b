"""What a caller sees of load balancers, their listeners and rules: what a blue/green step is told (R232)."""

from dataclasses import dataclass

from aws.caller import Caller
from aws.elb import Elb
from aws.elb_types import weights_of
from aws.elb_words import in_words

# A listener of a network load balancer has no rules, only what it does by default.
_OF_NETWORK = ":listener/net/"


@dataclass(frozen=True)
class Target:
    """A target group that a listener or a rule sends traffic to, and its weight among the others."""

    arn: str
    name: str
    weight: int


@dataclass(frozen=True)
class SeenBalancer:
    """A load balancer to choose."""

    name: str
    arn: str
    type: str
    dns_name: str


@dataclass(frozen=True)
class SeenListener:
    """A listener to choose; `targets` are those of its default rule."""

    arn: str
    port: int
    protocol: str
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class SeenRule:
    """A rule to choose, with its conditions in words (R234).

    `arn` is empty where the listener has no rules of its own: its default is then meant.
    """

    arn: str
    priority: str
    is_default: bool
    conditions: tuple[str, ...]
    targets: tuple[Target, ...]


def balancers_seen_by(caller: Caller, _of: str = "") -> list[SeenBalancer]:
    """The application and network load balancers of the region, by name. Raises `AwsError`."""
    found = [one for one in Elb(caller).load_balancers() if one.type != "gateway"]
    seen = [SeenBalancer(one.name, one.arn, one.type, one.dns_name) for one in found]
    return sorted(seen, key=lambda one: one.name)


def listeners_seen_by(caller: Caller, load_balancer: str) -> list[SeenListener]:
    """The listeners of a load balancer, by port. Raises `AwsError`."""
    found = Elb(caller).listeners(load_balancer)
    seen = [SeenListener(one.arn, one.port, one.protocol, _targets(one.actions)) for one in found]
    return sorted(seen, key=lambda one: one.port)


def rules_seen_by(caller: Caller, listener: str) -> list[SeenRule]:
    """The rules of a listener in their order, the default rule last. Raises `AwsError`."""
    if _OF_NETWORK in listener:
        only = Elb(caller).listener(listener)
        return [SeenRule("", "default", True, ("every connection",), _targets(only.actions))]
    rules = [
        SeenRule(
            one.arn, one.priority, one.is_default, tuple(in_words(one.conditions)), _targets(one.actions)
        )
        for one in Elb(caller).rules(listener)
    ]
    return sorted(rules, key=lambda one: (one.is_default, int(one.priority) if one.priority.isdigit() else 0))


def _targets(actions: list[dict[str, object]]) -> tuple[Target, ...]:
    return tuple(Target(arn, _name(arn), weight) for arn, weight in weights_of(actions).items())


def _name(arn: str) -> str:
    """The name in `arn:…:targetgroup/NAME/ID`."""
    parts = arn.split("/")
    return parts[1] if len(parts) > 1 else arn
