"""What Elastic Load Balancing answers with, as frozen values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class TargetHealth:
    """What a target group thinks of one target; `reason` and `description` are empty when it is healthy."""

    id: str
    port: int
    state: str
    reason: str
    description: str

    @classmethod
    def from_aws(cls, found: Mapping[str, Any]) -> Self:
        target, health = found.get("Target", {}), found.get("TargetHealth", {})
        return cls(
            id=target.get("Id", ""),
            port=target.get("Port", 0),
            state=health.get("State", ""),
            reason=health.get("Reason") or "",
            description=health.get("Description") or "",
        )


@dataclass(frozen=True)
class LoadBalancer:
    """A load balancer; `type` is application, network or gateway."""

    arn: str
    name: str
    type: str
    dns_name: str
    vpc: str

    @classmethod
    def from_aws(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            arn=found.get("LoadBalancerArn", ""),
            name=found.get("LoadBalancerName", ""),
            type=found.get("Type", "application"),
            dns_name=found.get("DNSName", ""),
            vpc=found.get("VpcId", ""),
        )


@dataclass(frozen=True)
class Listener:
    """A listener of a load balancer; `actions` are what its default rule does."""

    arn: str
    load_balancer: str
    port: int
    protocol: str
    actions: list[dict[str, Any]]

    @classmethod
    def from_aws(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            arn=found.get("ListenerArn", ""),
            load_balancer=found.get("LoadBalancerArn", ""),
            port=found.get("Port", 0),
            protocol=found.get("Protocol", ""),
            actions=list(found.get("DefaultActions", ())),
        )


@dataclass(frozen=True)
class Rule:
    """A rule of a listener; the default rule has no conditions and changes with its listener only."""

    arn: str
    priority: str
    is_default: bool
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]

    @classmethod
    def from_aws(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            arn=found.get("RuleArn", ""),
            priority=str(found.get("Priority", "")),
            is_default=bool(found.get("IsDefault")),
            conditions=list(found.get("Conditions", ())),
            actions=list(found.get("Actions", ())),
        )


@dataclass(frozen=True)
class TargetGroup:
    """A target group; `load_balancers` are those whose listeners send traffic to it."""

    arn: str
    name: str
    port: int
    protocol: str
    target_type: str
    load_balancers: list[str] = field(default_factory=list)

    @classmethod
    def from_aws(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            arn=found.get("TargetGroupArn", ""),
            name=found.get("TargetGroupName", ""),
            port=found.get("Port", 0),
            protocol=found.get("Protocol", ""),
            target_type=found.get("TargetType", ""),
            load_balancers=list(found.get("LoadBalancerArns", ())),
        )


def weights_of(actions: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The target groups that a list of actions forwards to, in its order, with their weights.

    AWS may answer with TargetGroupArn, with ForwardConfig, or with both, and means the same.
    """
    weights: dict[str, int] = {}
    for action in actions:
        if action.get("Type") != "forward":
            continue
        groups = action.get("ForwardConfig", {}).get("TargetGroups") or ()
        for group in groups:
            weights[group.get("TargetGroupArn", "")] = int(group.get("Weight", 1))
        if not groups and action.get("TargetGroupArn"):
            weights[action["TargetGroupArn"]] = 1
    return weights
