"""Load balancer targets with health derived from their ECS tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from moto.elbv2.exceptions import ELBClientError
from moto.elbv2.models import (
    ELBv2Backend,
    FakeAction,
    FakeHealthStatus,
    FakeLoadBalancer,
    FakeRule,
    FakeTargetGroup,
    elbv2_backends,
)
from moto.moto_api._internal import mock_random

from sandbox.clock import CLOCK

WEIGHT_LIMIT = 999
LISTENER_OPERATIONS = (
    "create_listener",
    "modify_listener",
    "delete_listener",
    "create_rule",
    "modify_rule",
    "delete_rule",
    "delete_load_balancer",
)


@dataclass
class RegisteredTarget:
    """Load balancer's record of one address."""

    ip: str
    port: int
    will_be_healthy: bool
    state: str
    since: float


def _get_targets(group: FakeTargetGroup) -> dict[str, RegisteredTarget]:
    table: dict[str, RegisteredTarget] = group.__dict__.setdefault("sandbox_targets", {})
    return table


def find_group(account_id: str, region: str, arn: str) -> FakeTargetGroup | None:
    return elbv2_backends[account_id][region].target_groups.get(arn)


def is_in_use(account_id: str, region: str, arn: str) -> bool:
    """Return whether a listener or rule sends traffic to the group."""
    return bool(elbv2_backends[account_id][region]._any_listener_using(arn))


def register_target(group: FakeTargetGroup, *, ip: str, port: int, will_be_healthy: bool) -> None:
    group.register([{"Id": ip, "Port": port}])
    _get_targets(group)[ip] = RegisteredTarget(ip, port, will_be_healthy, "initial", CLOCK.elapsed)


def deregister_target(group: FakeTargetGroup, ip: str) -> bool:
    """Start to drain an address; return False if it was not registered."""
    target = _get_targets(group).get(ip)
    if target is None or target.state == "draining":
        return False
    target.state, target.since = "draining", CLOCK.elapsed
    return True


def get_target_state(group: FakeTargetGroup, ip: str) -> str:
    target = _get_targets(group).get(ip)
    return target.state if target else "unused"


def get_drain_seconds(group: FakeTargetGroup) -> float:
    return float(group.attributes.get("deregistration_delay.timeout_seconds", 300))


def advance_targets(account_id: str, region: str) -> bool:
    """Advance health checks and draining, and return whether a target changed."""
    if account_id not in elbv2_backends or region not in elbv2_backends[account_id].keys():  # noqa: SIM118
        return False
    changed = False
    backend = elbv2_backends[account_id][region]
    groups = [group for group in backend.target_groups.values() if _get_targets(group)]
    used = _list_used_groups(backend) if groups else frozenset()
    for group in groups:
        for target in list(_get_targets(group).values()):
            changed |= _advance_target(group, target, in_use=group.arn in used)
    return changed


def _list_used_groups(backend: ELBv2Backend) -> frozenset[str]:
    balancers = list(backend.load_balancers.values())
    return frozenset(arn for balancer in balancers for arn in _list_groups(backend, balancer))


def _advance_target(group: FakeTargetGroup, target: RegisteredTarget, *, in_use: bool) -> bool:
    age = CLOCK.elapsed - target.since
    if target.state == "draining":
        if age < get_drain_seconds(group):
            return False
        del _get_targets(group)[target.ip]
        group.targets.pop(target.ip, None)
        return True
    if not in_use:
        changed, target.state, target.since = target.state != "unused", "unused", CLOCK.elapsed
        return changed
    if target.state == "unused":
        target.state, target.since = "initial", CLOCK.elapsed
        return True
    if target.state != "initial":
        return False
    threshold = group.healthy_threshold_count if target.will_be_healthy else group.unhealthy_threshold_count
    if age < float(group.health_check_interval_seconds) * int(threshold):
        return False
    target.state = "healthy" if target.will_be_healthy else "unhealthy"
    return True


STATE_REASONS = {
    "initial": ("Elb.RegistrationInProgress", "Target registration is in progress"),
    "unhealthy": ("Target.ResponseCodeMismatch", "Health checks failed with these codes: [503]"),
    "unused": ("Target.NotInUse", "Target group is not configured to receive traffic from the load balancer"),
    "draining": ("Target.DeregistrationInProgress", "Target deregistration is in progress"),
}


def install_elb() -> None:
    """Replace moto's health table and rules by those of the sandbox."""
    original_health = FakeTargetGroup.health_for

    def health_for(self: FakeTargetGroup, target: dict[str, Any], ec2_backend: Any) -> FakeHealthStatus:
        registered = _get_targets(self).get(target["Id"])
        if registered is None:
            return original_health(self, target, ec2_backend)
        reason, text = STATE_REASONS.get(registered.state, (None, None))
        return FakeHealthStatus(
            registered.ip, str(registered.port), self.health_check_port, registered.state, reason, text
        )

    FakeTargetGroup.health_for = health_for
    original_check = ELBv2Backend._validate_actions

    def validate_actions(self: ELBv2Backend, actions: list[FakeAction]) -> None:
        original_check(self, actions)
        _check_weights(actions)

    ELBv2Backend._validate_actions = validate_actions
    _patch_default_rule_ids()
    for name in LISTENER_OPERATIONS:
        _patch_listener_operation(name)


def _patch_default_rule_ids() -> None:
    """Give default rules random ids like all others; moto uses memory addresses."""
    original = FakeRule.__init__

    def init(self: FakeRule, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.arn = f"{self.arn.rpartition('/')[0]}/{mock_random.get_random_hex(16)}"

    FakeRule.__init__ = init


def _check_weights(actions: list[FakeAction]) -> None:
    for action in actions:
        for group in action.data.get("ForwardConfig", {}).get("TargetGroups", []):
            if not 0 <= int(group.get("Weight", 1)) <= WEIGHT_LIMIT:
                raise ELBClientError("ValidationError", f"Target group weights are 0 to {WEIGHT_LIMIT}.")


def _patch_listener_operation(name: str) -> None:
    """Patch an operation so that it updates the load balancers of each target group."""
    original: Callable[..., Any] = getattr(ELBv2Backend, name)

    @wraps(original)
    def wrapped(self: ELBv2Backend, *args: Any, **kwargs: Any) -> Any:
        if name == "modify_listener" and (
            actions := kwargs.get("actions") or (args[5] if len(args) > 5 else None)
        ):
            self._validate_actions([FakeAction(action) for action in actions])
        result = original(self, *args, **kwargs)
        _update_all_groups(self)
        return result

    setattr(ELBv2Backend, name, wrapped)


def _update_all_groups(backend: ELBv2Backend) -> None:
    for group in backend.target_groups.values():
        group.load_balancer_arns = []
    for balancer in backend.load_balancers.values():
        _update_groups(backend, balancer)


def _list_groups(backend: ELBv2Backend, balancer: FakeLoadBalancer) -> list[str]:
    rules = [rule for listener in balancer.listeners.values() for rule in listener.rules.values()]
    actions = [action for rule in rules for action in rule.actions]
    return [arn for action in actions for arn in backend._get_target_group_arns_from(action_data=action.data)]


def _update_groups(backend: ELBv2Backend, balancer: FakeLoadBalancer) -> None:
    for arn in _list_groups(backend, balancer):
        group = backend.target_groups.get(arn)
        if group is not None and balancer.arn not in group.load_balancer_arns:
            group.load_balancer_arns.append(balancer.arn)


def has_rule(account_id: str, region: str, arn: str) -> bool:
    """Return whether there is a rule, or a listener, with this ARN."""
    return _find_rule(elbv2_backends[account_id][region], arn) is not None


def set_forward_weights(account_id: str, region: str, arn: str, weights: Mapping[str, int]) -> bool:
    """Let a rule, or the default rule of a listener, forward by weights; return whether it exists.

    ECS does this for blue/green, linear and canary deployments; an action that signs people in stays.
    """
    backend = elbv2_backends[account_id][region]
    rule = _find_rule(backend, arn)
    if rule is None:
        return False
    groups = [{"TargetGroupArn": group, "Weight": weight} for group, weight in weights.items()]
    kept = [action for action in rule.actions if action.type != "forward"]
    order = {"Order": len(kept) + 1}
    forward = FakeAction({"Type": "forward", "ForwardConfig": {"TargetGroups": groups}, **order})
    # A default rule and its listener share the list.
    rule.actions[:] = [*kept, forward]
    _update_all_groups(backend)
    return True


def _find_rule(backend: ELBv2Backend, arn: str) -> FakeRule | None:
    for balancer in backend.load_balancers.values():
        for listener in balancer.listeners.values():
            for rule in listener.rules.values():
                if arn == rule.arn or (arn == listener.arn and rule.is_default):
                    return rule
    return None
