"""Listener rules of load balancers: read, described, rewritten to forward to target groups."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from aws.apis.elb import get_target_group_weights
from steps.actions.base import ActionFailed
from steps.actions.confirmations import CallRecord
from steps.actions.context import StepContext

_CONDITION_FIELDS = {
    "host-header": ("host is", "HostHeaderConfig"),
    "path-pattern": ("path is", "PathPatternConfig"),
    "http-request-method": ("method is", "HttpRequestMethodConfig"),
    "source-ip": ("source is", "SourceIpConfig"),
}


@dataclass(frozen=True)
class ListenerRoute:
    """One rule and what it did when it was read; `rule` is empty where a listener has no rules (NLB)."""

    listener: str
    port: int
    rule: str
    is_default: bool
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]

    @classmethod
    def from_record(cls, kept: Mapping[str, Any]) -> Self:
        return cls(**kept)

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def receiving(self) -> dict[str, int]:
        """Return the target groups that receive traffic, in the order of the rule, with their weights."""
        return {arn: weight for arn, weight in get_target_group_weights(self.actions).items() if weight > 0}

    @property
    def groups(self) -> list[str]:
        """Return the same without their weights."""
        return list(self.receiving)

    @property
    def known_groups(self) -> list[str]:
        """Return every target group that the rule names, those of weight 0 too: AWS checks their health."""
        return list(get_target_group_weights(self.actions))

    @property
    def first_group(self) -> str:
        """Return the first target group of the rule, whatever its weight (R231)."""
        return next(iter(get_target_group_weights(self.actions)), "")

    @property
    def name(self) -> str:
        """Return the rule's ARN, or what stands in its place in a log."""
        return self.rule or "default"

    def group_words(self) -> str:
        """Where traffic goes, short: the names of the groups, with their shares where there are several."""
        shares = self.receiving
        if len(shares) == 1:
            return format_target_group(next(iter(shares)))
        return (
            ", ".join(f"{format_target_group(arn)} ({weight})" for arn, weight in shares.items()) or "nothing"
        )

    def leads_as(self, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether traffic goes where `actions` would send it, whichever form they are written in."""
        return get_target_group_weights(self.actions) == get_target_group_weights(actions)

    def words(self) -> str:
        """Return the rule with its conditions, for a person who chooses or checks (R234)."""
        if self.is_default:
            return f"default rule of port {self.port}"
        return f"rule of port {self.port} for {format_conditions(self.conditions)}"


def format_target_group(arn: str) -> str:
    """Return a target group in a table: its name, and the id that AWS gave it."""
    return arn.partition("targetgroup/")[2] or arn


def format_conditions(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return the conditions of a rule in words, all of which must hold."""
    return " and ".join(_format_condition(one) for one in conditions) or "all requests"


def _format_condition(condition: Mapping[str, Any]) -> str:
    field = str(condition.get("Field", ""))
    if field == "http-header":
        header = condition.get("HttpHeaderConfig", {})
        return f"header {header.get('HttpHeaderName', '')} is {_join_alternatives(header.get('Values', ()))}"
    if field == "query-string":
        pairs = condition.get("QueryStringConfig", {}).get("Values", ())
        return "query has " + _join_alternatives(
            [f"{one.get('Key', '*')}={one.get('Value', '')}" for one in pairs]
        )
    words, config = _CONDITION_FIELDS.get(field, (f"{field} is", ""))
    values = condition.get(config, {}).get("Values") or condition.get("Values", ())
    return f"{words} {_join_alternatives(values)}"


def _join_alternatives(values: Sequence[str]) -> str:
    return " or ".join(str(value) for value in values) or "anything"


def read_route(context: StepContext, kept: ListenerRoute) -> ListenerRoute:
    """Return the same rule as it is now."""
    if kept.rule:
        rule = context.elb.get_rule(kept.rule)
        return ListenerRoute(
            kept.listener, kept.port, rule.arn, rule.is_default, rule.conditions, rule.actions
        )
    listener = context.elb.get_listener(kept.listener)
    return ListenerRoute(kept.listener, listener.port, "", True, [], listener.actions)


def write_route(context: StepContext, kept: ListenerRoute, actions: Sequence[Mapping[str, Any]]) -> None:
    """Give the rule these actions: a default rule changes with its listener, others by themselves (T13)."""
    sent = [_drop_read_only_fields(one) for one in actions]
    if kept.is_default:
        context.elb.update_listener(kept.listener, sent)
    else:
        context.elb.update_rule(kept.rule, sent)


def confirm_route_write(context: StepContext, call: CallRecord, routes: Sequence[ListenerRoute]) -> bool:
    """Return whether the rule that a ModifyRule or ModifyListener names does now what that call asked for."""
    wanted = call.params.get("Actions") or call.params.get("DefaultActions") or ()
    target = call.params.get("RuleArn") or call.params.get("ListenerArn")
    route = next(one for one in routes if target in ((one.listener,) if one.is_default else (one.rule,)))
    return read_route(context, route).leads_as(wanted)


def build_forward_actions(
    actions: Sequence[Mapping[str, Any]], groups: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the same actions, but forwarding to these target groups with these weights; stickiness stays."""
    return [
        _build_forward_action(one, groups) if one.get("Type") == "forward" else dict(one) for one in actions
    ]


def _build_forward_action(action: Mapping[str, Any], groups: Mapping[str, int]) -> dict[str, Any]:
    stickiness = action.get("ForwardConfig", {}).get("TargetGroupStickinessConfig", {})
    forward: dict[str, Any] = {"Type": "forward"}
    if "Order" in action:
        forward["Order"] = action["Order"]
    if len(groups) == 1 and not stickiness.get("Enabled"):
        return {**forward, "TargetGroupArn": next(iter(groups))}
    listed = [{"TargetGroupArn": arn, "Weight": weight} for arn, weight in groups.items()]
    config: dict[str, Any] = {"TargetGroups": listed}
    if stickiness.get("Enabled"):
        config["TargetGroupStickinessConfig"] = dict(stickiness)
    return {**forward, "ForwardConfig": config}


def _drop_read_only_fields(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action as AWS takes it back: it never shows the client's secret, and keeps the one it has."""
    oidc = action.get("AuthenticateOidcConfig")
    if oidc is None or "ClientSecret" in oidc:
        return dict(action)
    return {**action, "AuthenticateOidcConfig": {**oidc, "UseExistingClientSecret": True}}


def require_forward(route: ListenerRoute, which: str) -> None:
    """Raise `ActionFailed` where a rule redirects or answers by itself: there is nothing to swap."""
    if not route.groups:
        raise ActionFailed(
            "RULE_DOES_NOT_FORWARD",
            f"The {which} Listener Rule {route.name} of {route.listener} forwards to no target group. "
            "Choose a rule whose action is forward.",
        )
