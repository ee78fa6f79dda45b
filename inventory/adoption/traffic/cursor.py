"""Cursor of the load balancer reads for blue/green pairs.

It reads from a target group to its load balancers, their listeners and all rules. It is a value, so any
process can continue it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from aws.apis.elb import ElbRule, Listener, LoadBalancer, TargetGroup, get_target_group_weights
from guards.limits import ADOPTION_GROUPS
from guards.text import sanitize_text
from steps.actions.blue_green.listener_rules import ListenerRoute

LOAD_BALANCING_SERVICE: Final = "elbv2"
# The limit of DescribeTargetGroups and DescribeLoadBalancers.
ARNS_PER_CALL: Final = 20
GROUPS, BALANCERS, LISTENERS, RULES = "groups", "balancers", "listeners", "rules"
OTHERS, HEALTH = "others", "health"
_PHASE_ORDER: Final = (GROUPS, BALANCERS, LISTENERS, RULES, OTHERS, HEALTH, "")
# By phase: the operation, the parameter of the names, and the names per call.
_PHASE_CALLS: Final = {
    GROUPS: ("DescribeTargetGroups", "TargetGroupArns", ARNS_PER_CALL),
    BALANCERS: ("DescribeLoadBalancers", "LoadBalancerArns", ARNS_PER_CALL),
    LISTENERS: ("DescribeListeners", "LoadBalancerArn", 1),
    RULES: ("DescribeRules", "ListenerArn", 1),
    OTHERS: ("DescribeTargetGroups", "TargetGroupArns", ARNS_PER_CALL),
    HEALTH: ("DescribeTargetHealth", "TargetGroupArn", 1),
}
_APPLICATION_TYPE: Final = "application"


@dataclass(frozen=True)
class TrafficCursor:
    """The position of the reads, with the responses so far by ARN.

    `target_groups` are those of the pairs. `is_single` reads one name per call, since one missing name
    fails a batch. `routes` are rows of `ListenerRoute.to_record`, each with its `balancer`. `targets`
    counts the registered targets of groups that may become a stage group.
    """

    target_groups: tuple[str, ...] = ()
    phase: str = ""
    pending: tuple[str, ...] = ()
    token: str = ""
    is_single: bool = False
    groups: Mapping[str, Any] = field(default_factory=dict)
    balancers: Mapping[str, Any] = field(default_factory=dict)
    listeners: Mapping[str, Any] = field(default_factory=dict)
    routes: tuple[Mapping[str, Any], ...] = ()
    targets: Mapping[str, int] = field(default_factory=dict)
    read_error: str = ""

    @classmethod
    def of(cls, groups: Sequence[str]) -> Self:
        """Return a cursor for these target groups."""
        return cls(target_groups=tuple(groups), phase=GROUPS, pending=tuple(groups))._advance_phase()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        lists = {name: tuple(row[name]) for name in ("target_groups", "pending", "routes")}
        return cls(**{**row, **lists})

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_complete(self) -> bool:
        return not self.phase

    def build_call(self) -> tuple[str, str, Mapping[str, Any]]:
        """Return the next call: service, operation and parameters."""
        operation, member, batch_size = _PHASE_CALLS[self.phase]
        batch: Any = list(self.pending[: self._size]) if batch_size > 1 else self.pending[0]
        page = {"Marker": self.token} if self.token else {}
        return LOAD_BALANCING_SERVICE, operation, {member: batch, **page}

    def after_response(self, response: Mapping[str, Any]) -> Self:
        """Return the cursor after a response."""
        cursor = getattr(self, f"_with_{self.phase}")(response)
        token = str(response.get("NextMarker") or "")
        if token and token != self.token:
            return replace(cursor, token=token)
        return cursor._after_batch()

    def stop(self, reason: str) -> Self:
        """Return the cursor at its end, since a read is denied."""
        return replace(self, phase="", pending=(), token="", read_error=sanitize_text(reason))

    def skip_missing(self) -> Self:
        """Return the cursor after a read of something that no longer exists."""
        if self._size > 1 and len(self.pending) > 1:
            return replace(self, is_single=True, token="")
        return self._after_batch()

    @property
    def _size(self) -> int:
        return 1 if self.is_single else _PHASE_CALLS[self.phase][2]

    def _after_batch(self) -> Self:
        return replace(self, pending=self.pending[self._size :], token="")._advance_phase()

    def _advance_phase(self) -> Self:
        cursor = self
        while cursor.phase and not cursor.pending:
            phase = _PHASE_ORDER[_PHASE_ORDER.index(cursor.phase) + 1]
            cursor = replace(cursor, phase=phase, pending=tuple(cursor._list_pending(phase)), is_single=False)
        return cursor

    def _list_pending(self, phase: str) -> Iterable[str]:
        if phase == BALANCERS:
            return sorted({arn for entry in self.groups.values() for arn in entry["balancers"]})
        if phase == LISTENERS:
            return sorted(self.balancers)
        if phase == RULES:
            return sorted(arn for arn, entry in self.listeners.items() if self._has_rules(entry))
        if phase == OTHERS:
            return sorted(
                {arn for entry in self.routes for arn in get_target_group_weights(entry["actions"])}
                - set(self.groups)
            )
        return self._possible_stages() if phase == HEALTH else ()

    def _has_rules(self, listener: Mapping[str, Any]) -> bool:
        return bool(self.balancers[listener["balancer"]]["type"] == _APPLICATION_TYPE)

    def _possible_stages(self) -> list[str]:
        """Return the groups that at most one rule forwards to, with the target type of the pairs."""
        kinds = {self.groups[arn]["target_type"] for arn in self.target_groups if arn in self.groups}
        weights = [get_target_group_weights(entry["actions"]) for entry in self.routes]
        feeding = [arn for entry in weights for arn, weight in entry.items() if weight > 0]
        candidates = {
            arn
            for arn in {arn for entry in weights for arn in entry} - set(self.target_groups)
            if feeding.count(arn) < 2 and self.groups.get(arn, {}).get("target_type") in kinds
        }
        return sorted(candidates)[:ADOPTION_GROUPS]

    def _with_groups(self, response: Mapping[str, Any]) -> Self:
        groups = {group.arn: group for group in map(TargetGroup.from_aws, response.get("TargetGroups") or ())}
        rows = {
            arn: {
                "port": group.port,
                "protocol": group.protocol,
                "target_type": group.target_type,
                "balancers": group.load_balancers,
            }
            for arn, group in groups.items()
        }
        return replace(self, groups={**self.groups, **rows})

    _with_others = _with_groups

    def _with_balancers(self, response: Mapping[str, Any]) -> Self:
        balancers = map(LoadBalancer.from_aws, response.get("LoadBalancers") or ())
        rows = {
            balancer.arn: {"name": sanitize_text(balancer.name), "type": balancer.type, "vpc": balancer.vpc}
            for balancer in balancers
        }
        return replace(self, balancers={**self.balancers, **rows})

    def _with_listeners(self, response: Mapping[str, Any]) -> Self:
        new_listeners = [Listener.from_aws(listener) for listener in response.get("Listeners") or ()]
        rows = {
            listener.arn: {
                "balancer": listener.load_balancer,
                "port": listener.port,
                "protocol": listener.protocol,
            }
            for listener in new_listeners
            if listener.load_balancer in self.balancers
        }
        plain_routes = [
            _serialize_route(
                ListenerRoute(
                    listener.arn, listener.port, "", True, [], _filter_forward_actions(listener.actions)
                ),
                listener.load_balancer,
            )
            for listener in new_listeners
            if listener.arn in rows and not self._has_rules(rows[listener.arn])
        ]
        listeners = {**self.listeners, **rows}
        return replace(self, listeners=listeners, routes=(*self.routes, *plain_routes))

    def _with_rules(self, response: Mapping[str, Any]) -> Self:
        listener = self.pending[0]
        listener_row = self.listeners[listener]
        rule_routes = [
            _serialize_route(
                ListenerRoute(
                    listener,
                    listener_row["port"],
                    rule.arn,
                    rule.is_default,
                    rule.conditions,
                    _filter_forward_actions(rule.actions),
                ),
                listener_row["balancer"],
            )
            for rule in map(ElbRule.from_aws, response.get("Rules") or ())
        ]
        return replace(self, routes=(*self.routes, *rule_routes))

    def _with_health(self, response: Mapping[str, Any]) -> Self:
        target_count = len(response.get("TargetHealthDescriptions") or ())
        return replace(self, targets={**self.targets, self.pending[0]: target_count})


def _filter_forward_actions(actions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Keep forward actions only; others may contain sign-in settings."""
    fields = ("Type", "TargetGroupArn", "ForwardConfig")
    return [
        {key: action[key] for key in fields if key in action}
        for action in actions
        if action.get("Type") == "forward"
    ]


def _serialize_route(route: ListenerRoute, balancer: str) -> dict[str, Any]:
    return {**_clean_value(route.to_record()), "balancer": balancer}


def _clean_value(value: Any) -> Any:
    """Remove characters that a database does not store; conditions are foreign text."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {str(key): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(item) for item in value] if isinstance(value, list | tuple) else value
