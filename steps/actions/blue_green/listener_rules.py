"""Listener rules of load balancers: reads, descriptions, and rewrites that forward to target groups."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from aws.apis.elb import get_target_group_weights
from steps.actions.base import ActionFailed
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import StepContext

_CONDITION_FIELDS = {
    "host-header": ("host is", "HostHeaderConfig"),
    "path-pattern": ("path is", "PathPatternConfig"),
    "http-request-method": ("method is", "HttpRequestMethodConfig"),
    "source-ip": ("source is", "SourceIpConfig"),
}


@dataclass(frozen=True)
class ListenerRoute:
    """A listener rule with its actions; `rule` is empty for a listener without rules (NLB)."""

    listener: str
    port: int
    rule: str
    is_default: bool
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(**record)

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def weights(self) -> dict[str, int]:
        """Return the weights of the target groups that receive traffic, in the order of the rule."""
        return {arn: weight for arn, weight in get_target_group_weights(self.actions).items() if weight > 0}

    @property
    def groups(self) -> list[str]:
        """Return the target groups that receive traffic."""
        return list(self.weights)

    @property
    def named_groups(self) -> list[str]:
        """Return every target group of the rule, also of weight 0: AWS checks their health."""
        return list(get_target_group_weights(self.actions))

    @property
    def first_group(self) -> str:
        """Return the first target group of the rule, whatever its weight (R231)."""
        return next(iter(get_target_group_weights(self.actions)), "")

    @property
    def name(self) -> str:
        """Return the rule's ARN, or "default"."""
        return self.rule or "default"

    def describe_groups(self) -> str:
        """Return the names of the groups, with their weights if there are several."""
        weights = self.weights
        if len(weights) == 1:
            return format_target_group(next(iter(weights)))
        return (
            ", ".join(f"{format_target_group(arn)} ({weight})" for arn, weight in weights.items())
            or "nothing"
        )

    def forwards_like(self, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the rule forwards like `actions`, in whichever form they are written."""
        return get_target_group_weights(self.actions) == get_target_group_weights(
            actions
        ) and get_stickiness_seconds(self.actions) == get_stickiness_seconds(actions)

    def describe(self) -> str:
        """Return the rule with its conditions as text (R234)."""
        if self.is_default:
            return f"default rule of port {self.port}"
        return f"rule of port {self.port} for {format_conditions(self.conditions)}"


def get_stickiness_seconds(actions: Sequence[Mapping[str, Any]]) -> int:
    """Return how long clients stay with their target group; 0 without stickiness of target groups."""
    configs = (
        action.get("ForwardConfig", {}).get("TargetGroupStickinessConfig", {})
        for action in actions
        if action.get("Type") == "forward"
    )
    return max(
        (int(config.get("DurationSeconds") or 1) for config in configs if config.get("Enabled")), default=0
    )


def format_target_group(arn: str) -> str:
    """Return name and id of a target group."""
    return arn.partition("targetgroup/")[2] or arn


def format_conditions(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return the conditions of a rule as text, all of which must hold."""
    return " and ".join(_format_condition(condition) for condition in conditions) or "all requests"


def _format_condition(condition: Mapping[str, Any]) -> str:
    field = str(condition.get("Field", ""))
    if field == "http-header":
        header = condition.get("HttpHeaderConfig", {})
        return f"header {header.get('HttpHeaderName', '')} is {_join_alternatives(header.get('Values', ()))}"
    if field == "query-string":
        pairs = condition.get("QueryStringConfig", {}).get("Values", ())
        return "query has " + _join_alternatives(
            [f"{pair.get('Key', '*')}={pair.get('Value', '')}" for pair in pairs]
        )
    phrase, config = _CONDITION_FIELDS.get(field, (f"{field} is", ""))
    values = condition.get(config, {}).get("Values") or condition.get("Values", ())
    return f"{phrase} {_join_alternatives(values)}"


def _join_alternatives(values: Sequence[str]) -> str:
    return " or ".join(str(value) for value in values) or "anything"


def read_route(context: StepContext, route: ListenerRoute) -> ListenerRoute:
    """Return the current state of the rule."""
    if route.rule:
        rule = context.elb.get_rule(route.rule)
        return ListenerRoute(
            route.listener, route.port, rule.arn, rule.is_default, rule.conditions, rule.actions
        )
    listener = context.elb.get_listener(route.listener)
    return ListenerRoute(route.listener, listener.port, "", True, [], listener.actions)


def write_route(context: StepContext, route: ListenerRoute, actions: Sequence[Mapping[str, Any]]) -> None:
    """Let the rule forward like `actions`; a default rule is changed through its listener (T13).

    Its other actions stay as they are now: somebody may have added an authentication since they were saved.
    """
    forwards = _replace_forwards(read_route(context, route).actions, actions)
    parameters = [_drop_read_only_fields(action) for action in forwards]
    if route.is_default:
        context.elb.update_listener(route.listener, parameters)
    else:
        context.elb.update_rule(route.rule, parameters)


def _replace_forwards(
    current: Sequence[Mapping[str, Any]], desired: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the current actions with the desired forward action in place of theirs."""
    forward = next((action for action in desired if action.get("Type") == "forward"), None)
    if forward is None or all(action.get("Type") != "forward" for action in current):
        return [dict(action) for action in desired]
    plain = {name: value for name, value in forward.items() if name != "Order"}
    return [
        {**plain, **({"Order": action["Order"]} if "Order" in action else {})}
        if action.get("Type") == "forward"
        else dict(action)
        for action in current
    ]


def confirm_route_write(
    context: StepContext, call: CallRecord, routes: Sequence[ListenerRoute]
) -> Confirmation:
    """Confirm a ModifyRule or ModifyListener: its rule forwards as the call requested."""
    late = is_past_read_lag(context, call)
    actions = call.params.get("Actions") or call.params.get("DefaultActions") or ()
    target = call.params.get("RuleArn") or call.params.get("ListenerArn")
    route = next(
        candidate
        for candidate in routes
        if target in ((candidate.listener,) if candidate.is_default else (candidate.rule,))
    )
    if read_route(context, route).forwards_like(actions):
        return Applied({})
    return NotApplied() if late else Unconfirmed()


def build_forward_actions(
    actions: Sequence[Mapping[str, Any]], groups: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the actions with forwards to these weighted target groups; stickiness stays."""
    return [
        _build_forward_action(action, groups) if action.get("Type") == "forward" else dict(action)
        for action in actions
    ]


def _build_forward_action(action: Mapping[str, Any], groups: Mapping[str, int]) -> dict[str, Any]:
    stickiness = action.get("ForwardConfig", {}).get("TargetGroupStickinessConfig", {})
    forward: dict[str, Any] = {"Type": "forward"}
    if "Order" in action:
        forward["Order"] = action["Order"]
    if len(groups) == 1 and not stickiness.get("Enabled"):
        return {**forward, "TargetGroupArn": next(iter(groups))}
    target_groups = [{"TargetGroupArn": arn, "Weight": weight} for arn, weight in groups.items()]
    config: dict[str, Any] = {"TargetGroups": target_groups}
    if stickiness.get("Enabled"):
        config["TargetGroupStickinessConfig"] = dict(stickiness)
    return {**forward, "ForwardConfig": config}


def _drop_read_only_fields(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action as AWS accepts it: the client secret, which AWS never returns, is kept."""
    oidc = action.get("AuthenticateOidcConfig")
    if oidc is None or "ClientSecret" in oidc:
        return dict(action)
    return {**action, "AuthenticateOidcConfig": {**oidc, "UseExistingClientSecret": True}}


def require_forward(route: ListenerRoute, role: str) -> None:
    """Raise `ActionFailed` if a rule redirects or returns a fixed response: there is nothing to swap."""
    if not route.groups:
        raise ActionFailed(
            "RULE_DOES_NOT_FORWARD",
            f"The {role} Listener Rule {route.name} of {route.listener} forwards to no target group. "
            "Choose a rule whose action is forward.",
        )
