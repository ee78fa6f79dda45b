"""Cursor of the load balancer reads for blue/green pairs.

From a target group to its load balancers, their listeners and all rules; a value, so that any process can
take it up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from aws.apis.elb import ElbRule, Listener, LoadBalancer, TargetGroup, get_target_group_weights
from guards.limits import ADOPTION_GROUPS
from guards.text import sanitize_text
from steps.actions.blue_green.listener_rules import ListenerRoute

LOAD_BALANCING_SERVICE: Final = "elbv2"
# What DescribeTargetGroups and DescribeLoadBalancers take in one call.
ARNS_PER_CALL: Final = 20
GROUPS, BALANCERS, LISTENERS, RULES = "groups", "balancers", "listeners", "rules"
OTHERS, HEALTH = "others", "health"
_PHASE_ORDER: Final = (GROUPS, BALANCERS, LISTENERS, RULES, OTHERS, HEALTH, "")
# By phase: the operation, the parameter that names what is asked for, how much one call takes.
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
    """How far it is. `asked` are the target groups of pairs; the rest is what was answered, by ARN.

    `alone` asks for one at a time, since one of many that is missing spoils the answer. `routes` are those of
    `Route.to_memory`, each with the ARN of its `balancer`. `targets` counts what is registered in the groups
    that may become a stage group.
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
        """The reading of where the traffic of these target groups comes from."""
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
        """The next call: service, operation and parameters."""
        operation, member, most = _PHASE_CALLS[self.phase]
        batch: Any = list(self.pending[: self._size]) if most > 1 else self.pending[0]
        page = {"Marker": self.token} if self.token else {}
        return LOAD_BALANCING_SERVICE, operation, {member: batch, **page}

    def after_response(self, answer: Mapping[str, Any]) -> Self:
        """After an answer."""
        kept = getattr(self, f"_with_{self.phase}")(answer)
        token = str(answer.get("NextMarker") or "")
        if token and token != self.token:
            return replace(kept, token=token)
        return kept._after_batch()

    def stop(self, reason: str) -> Self:
        """Where something of it may not be read, nothing is known of the rest."""
        return replace(self, phase="", pending=(), token="", read_error=sanitize_text(reason))

    def skip_missing(self) -> Self:
        """Where something that was asked for is not there any more."""
        if self._size > 1 and len(self.pending) > 1:
            return replace(self, is_single=True, token="")
        return self._after_batch()

    @property
    def _size(self) -> int:
        return 1 if self.is_single else _PHASE_CALLS[self.phase][2]

    def _after_batch(self) -> Self:
        return replace(self, pending=self.pending[self._size :], token="")._advance_phase()

    def _advance_phase(self) -> Self:
        found = self
        while found.phase and not found.pending:
            phase = _PHASE_ORDER[_PHASE_ORDER.index(found.phase) + 1]
            found = replace(found, phase=phase, pending=tuple(found._list_pending(phase)), is_single=False)
        return found

    def _list_pending(self, phase: str) -> Iterable[str]:
        if phase == BALANCERS:
            return sorted({arn for one in self.groups.values() for arn in one["balancers"]})
        if phase == LISTENERS:
            return sorted(self.balancers)
        if phase == RULES:
            return sorted(arn for arn, one in self.listeners.items() if self._has_rules(one))
        if phase == OTHERS:
            return sorted(
                {arn for one in self.routes for arn in get_target_group_weights(one["actions"])}
                - set(self.groups)
            )
        return self._possible_stages() if phase == HEALTH else ()

    def _has_rules(self, listener: Mapping[str, Any]) -> bool:
        return bool(self.balancers[listener["balancer"]]["type"] == _APPLICATION_TYPE)

    def _possible_stages(self) -> list[str]:
        """The groups that one rule alone leads to, and that hold what those of the pairs hold."""
        kinds = {self.groups[arn]["target_type"] for arn in self.target_groups if arn in self.groups}
        weights = [get_target_group_weights(one["actions"]) for one in self.routes]
        feeding = [arn for one in weights for arn, weight in one.items() if weight > 0]
        found = {
            arn
            for arn in {arn for one in weights for arn in one} - set(self.target_groups)
            if feeding.count(arn) < 2 and self.groups.get(arn, {}).get("target_type") in kinds
        }
        return sorted(found)[:ADOPTION_GROUPS]

    def _with_groups(self, answer: Mapping[str, Any]) -> Self:
        found = {one.arn: one for one in map(TargetGroup.from_aws, answer.get("TargetGroups") or ())}
        rows = {
            arn: {
                "port": one.port,
                "protocol": one.protocol,
                "target_type": one.target_type,
                "balancers": one.load_balancers,
            }
            for arn, one in found.items()
        }
        return replace(self, groups={**self.groups, **rows})

    _with_others = _with_groups

    def _with_balancers(self, answer: Mapping[str, Any]) -> Self:
        found = map(LoadBalancer.from_aws, answer.get("LoadBalancers") or ())
        rows = {one.arn: {"name": sanitize_text(one.name), "type": one.type, "vpc": one.vpc} for one in found}
        return replace(self, balancers={**self.balancers, **rows})

    def _with_listeners(self, answer: Mapping[str, Any]) -> Self:
        found = [Listener.from_aws(one) for one in answer.get("Listeners") or ()]
        rows = {
            one.arn: {"balancer": one.load_balancer, "port": one.port, "protocol": one.protocol}
            for one in found
            if one.load_balancer in self.balancers
        }
        plain = [
            _serialize_route(
                ListenerRoute(one.arn, one.port, "", True, [], _filter_forward_actions(one.actions)),
                one.load_balancer,
            )
            for one in found
            if one.arn in rows and not self._has_rules(rows[one.arn])
        ]
        listeners = {**self.listeners, **rows}
        return replace(self, listeners=listeners, routes=(*self.routes, *plain))

    def _with_rules(self, answer: Mapping[str, Any]) -> Self:
        listener = self.pending[0]
        where = self.listeners[listener]
        found = [
            _serialize_route(
                ListenerRoute(
                    listener,
                    where["port"],
                    one.arn,
                    one.is_default,
                    one.conditions,
                    _filter_forward_actions(one.actions),
                ),
                where["balancer"],
            )
            for one in map(ElbRule.from_aws, answer.get("Rules") or ())
        ]
        return replace(self, routes=(*self.routes, *found))

    def _with_health(self, answer: Mapping[str, Any]) -> Self:
        many = len(answer.get("TargetHealthDescriptions") or ())
        return replace(self, targets={**self.targets, self.pending[0]: many})


def _filter_forward_actions(actions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of what a rule does the forwarding alone: others hold the addresses of people's sign-in."""
    kept = ("Type", "TargetGroupArn", "ForwardConfig")
    return [{key: one[key] for key in kept if key in one} for one in actions if one.get("Type") == "forward"]


def _serialize_route(route: ListenerRoute, balancer: str) -> dict[str, Any]:
    return {**_clean_value(route.to_memory()), "balancer": balancer}


def _clean_value(value: Any) -> Any:
    """The same without what no database holds: conditions are texts of other people."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {str(key): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(one) for one in value] if isinstance(value, list | tuple) else value
