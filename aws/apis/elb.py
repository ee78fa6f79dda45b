"""Client for Elastic Load Balancing v2: listeners, rules, target groups and target health."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aws.caller import Caller, paginate, split_batches


@dataclass(frozen=True)
class TargetHealth:
    """Health of a target in a target group; `reason` and `description` are empty for a healthy one."""

    id: str
    port: int
    state: str
    reason: str
    description: str

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        target, health = raw.get("Target", {}), raw.get("TargetHealth", {})
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
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            arn=raw.get("LoadBalancerArn", ""),
            name=raw.get("LoadBalancerName", ""),
            type=raw.get("Type", "application"),
            dns_name=raw.get("DNSName", ""),
            vpc=raw.get("VpcId", ""),
        )


@dataclass(frozen=True)
class Listener:
    """Listener of a load balancer; `actions` are those of its default rule."""

    arn: str
    load_balancer: str
    port: int
    protocol: str
    actions: list[dict[str, Any]]

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            arn=raw.get("ListenerArn", ""),
            load_balancer=raw.get("LoadBalancerArn", ""),
            port=raw.get("Port", 0),
            protocol=raw.get("Protocol", ""),
            actions=list(raw.get("DefaultActions", ())),
        )


@dataclass(frozen=True)
class ElbRule:
    """A rule of a listener; the default rule has no conditions and changes with its listener only."""

    arn: str
    priority: str
    is_default: bool
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            arn=raw.get("RuleArn", ""),
            priority=str(raw.get("Priority", "")),
            is_default=bool(raw.get("IsDefault")),
            conditions=list(raw.get("Conditions", ())),
            actions=list(raw.get("Actions", ())),
        )


@dataclass(frozen=True)
class TargetGroup:
    """Target group with the load balancers that forward to it."""

    arn: str
    name: str
    port: int
    protocol: str
    target_type: str
    load_balancers: list[str] = field(default_factory=list)
    vpc: str = ""

    @classmethod
    def from_aws(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            arn=raw.get("TargetGroupArn", ""),
            name=raw.get("TargetGroupName", ""),
            port=raw.get("Port", 0),
            protocol=raw.get("Protocol", ""),
            target_type=raw.get("TargetType", ""),
            load_balancers=list(raw.get("LoadBalancerArns", ())),
            vpc=raw.get("VpcId", ""),
        )


def get_target_group_weights(actions: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the target groups of a list of actions with their weights, in order.

    AWS returns TargetGroupArn, ForwardConfig, or both with the same meaning.
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


DEFAULT_RULE_TEXT = "default, if no other rule matches"
_CONDITION_FIELDS = {
    "path-pattern": ("path is", "PathPatternConfig"),
    "host-header": ("host is", "HostHeaderConfig"),
    "http-request-method": ("method is", "HttpRequestMethodConfig"),
    "source-ip": ("comes from", "SourceIpConfig"),
}


def describe_conditions(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the conditions of a rule; all must match. A rule without conditions matches the rest."""
    return [_describe_condition(condition) for condition in conditions] or [DEFAULT_RULE_TEXT]


def _describe_condition(condition: Mapping[str, Any]) -> str:
    field = str(condition.get("Field", ""))
    if field in _CONDITION_FIELDS:
        words, config = _CONDITION_FIELDS[field]
        return f"{words} {_format_condition_values(condition, config)}"
    if field == "http-header":
        header = condition.get("HttpHeaderConfig") or {}
        return (
            f"header {header.get('HttpHeaderName', '')} is {_join_alternatives(header.get('Values') or ())}"
        )
    if field == "query-string":
        pairs = (condition.get("QueryStringConfig") or {}).get("Values") or ()
        return f"query has {_join_alternatives(_format_query_pair(pair) for pair in pairs)}"
    return f"{field or 'a condition'} that is not known here"


def _format_condition_values(condition: Mapping[str, Any], config: str) -> str:
    settings = condition.get(config) or {}
    patterns = [f"matches {pattern}" for pattern in settings.get("RegexValues") or ()]
    return _join_alternatives([*(settings.get("Values") or condition.get("Values") or ()), *patterns])


def _format_query_pair(pair: Mapping[str, Any]) -> str:
    return f"{pair['Key']}={pair.get('Value', '')}" if pair.get("Key") else str(pair.get("Value", ""))


def _join_alternatives(values: Iterable[Any]) -> str:
    return " or ".join(map(str, values)) or "nothing"


# https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupTuple.html
MAX_WEIGHT = 999
# https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
MAX_TARGET_GROUPS = 5
# Limit of DescribeTargetGroups and DescribeRules for one call.
ARNS_PER_CALL = 20


@dataclass(frozen=True)
class ElbClient:
    """Speaks Elastic Load Balancing v2 through a caller."""

    caller: Caller

    def list_target_health(self, target_group_arn: str) -> list[TargetHealth]:
        response = self._call("DescribeTargetHealth", {"TargetGroupArn": target_group_arn})
        return [
            TargetHealth.from_aws(description) for description in response.get("TargetHealthDescriptions", ())
        ]

    def list_load_balancers(self) -> list[LoadBalancer]:
        """Return every load balancer of the region."""
        return [
            LoadBalancer.from_aws(item)
            for item in self._list_all("DescribeLoadBalancers", {}, "LoadBalancers")
        ]

    def get_load_balancer(self, name: str) -> LoadBalancer:
        """Return the load balancer with this name or ARN; raises `NotFound`."""
        params = {"LoadBalancerArns": [name]} if name.startswith("arn:") else {"Names": [name]}
        response = self._call("DescribeLoadBalancers", params)
        return LoadBalancer.from_aws(next(iter(response.get("LoadBalancers", ())), {}))

    def list_listeners(self, load_balancer_arn: str) -> list[Listener]:
        """Return the listeners of a load balancer."""
        listeners = self._list_all("DescribeListeners", {"LoadBalancerArn": load_balancer_arn}, "Listeners")
        return [Listener.from_aws(listener) for listener in listeners]

    def get_listener(self, arn: str) -> Listener:
        """Return a listener. Raises `NotFound`."""
        response = self._call("DescribeListeners", {"ListenerArns": [arn]})
        return Listener.from_aws(next(iter(response.get("Listeners", ())), {}))

    def list_rules(self, listener_arn: str) -> list[ElbRule]:
        """Return the rules of an application load balancer's listener, the default rule among them."""
        rules = self._list_all("DescribeRules", {"ListenerArn": listener_arn}, "Rules")
        return [ElbRule.from_aws(rule) for rule in rules]

    def get_rule(self, arn: str) -> ElbRule:
        """Return a rule. Raises `NotFound`."""
        response = self._call("DescribeRules", {"RuleArns": [arn]})
        return ElbRule.from_aws(next(iter(response.get("Rules", ())), {}))

    def get_target_groups(self, arns: Sequence[str]) -> list[TargetGroup]:
        """Return the target groups with these ARNs; raises `NotFound` if one of them does not exist."""
        groups: list[TargetGroup] = []
        for batch in split_batches(arns, ARNS_PER_CALL):
            response = self._call("DescribeTargetGroups", {"TargetGroupArns": batch})
            groups += [TargetGroup.from_aws(group) for group in response.get("TargetGroups", ())]
        return groups

    def list_target_groups(self) -> list[TargetGroup]:
        """Return every target group of the region."""
        return [
            TargetGroup.from_aws(group)
            for group in self._list_all("DescribeTargetGroups", {}, "TargetGroups")
        ]

    def update_rule(self, arn: str, actions: Sequence[Mapping[str, Any]]) -> None:
        """Set the actions of a rule; its conditions stay. A default rule is changed through its listener."""
        self._call("ModifyRule", {"RuleArn": arn, "Actions": list(actions)})

    def update_listener(self, arn: str, actions: Sequence[Mapping[str, Any]]) -> None:
        """Set the actions of a listener's default rule; its other settings stay."""
        self._call("ModifyListener", {"ListenerArn": arn, "DefaultActions": list(actions)})

    def _list_all(self, operation: str, params: Mapping[str, Any], result_key: str) -> list[dict[str, Any]]:
        pages = paginate(
            self.caller,
            "elbv2",
            operation,
            params,
            result_key=result_key,
            cursor_key="Marker",
            response_cursor_key="NextMarker",
        )
        return list(pages)

    def _call(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.caller.call("elbv2", operation, params)
