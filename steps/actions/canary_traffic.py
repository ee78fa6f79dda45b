"""Actions that give a canary a share of the production traffic, through a target group of its own."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aws.apis.elb import MAX_TARGET_GROUPS, get_target_group_weights
from aws.errors import NotFound
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.blue_green.listener_rules import (
    ListenerRoute,
    build_forward_actions,
    confirm_route_write,
    format_target_group,
    read_route,
    write_route,
)
from steps.actions.blue_green.route_restores import (
    build_route_check,
    describe_route_restore,
    mark_moved,
    require_healthy_targets,
    restore_route,
)
from steps.actions.blue_green.target_groups import read_listener_route
from steps.actions.blue_green.target_owners import read_target_owners, refuse_foreign_targets
from steps.actions.blue_green.traffic import count_healthy_targets
from steps.actions.blue_green.traffic_shares import compute_weights
from steps.actions.confirmations import (
    CallRecord,
    Confirmation,
    clear_observation,
    is_observed_twice,
)
from steps.actions.context import EarlierStep, StepContext
from steps.actions.ecs_service.snapshots import CANARY_SUFFIX

MOST_PERCENT = 99
_SHARE_KEY, _FOREIGN_RULE, _NO_BALANCER = "canary share", "foreign rule", "no load balancer"


@dataclass(frozen=True)
class CanaryShare:
    """The rule from before the canary, and the canary's target group, percent and number of tasks.

    `percent` is 0 if no version serves the rule's traffic, of which the canary would take a part.
    """

    route: ListenerRoute
    group: str
    percent: int
    tasks: int

    @property
    def attached_actions(self) -> list[dict[str, Any]]:
        """Return the actions with the canary's group at weight 0: ECS needs a rule that names the group."""
        weights = {**get_target_group_weights(self.route.actions), self.group: 0}
        return build_forward_actions(self.route.actions, weights)

    @property
    def shared_actions(self) -> list[dict[str, Any]]:
        """Return the actions with the canary's share of the traffic."""
        return build_forward_actions(
            self.route.actions, compute_weights(self.route.weights, self.group, self.percent)
        )

    @property
    def is_attached_before(self) -> bool:
        """Return whether the rule has named the canary's group all along."""
        return self.route.forwards_like(self.attached_actions)

    def is_own_state(self, now: ListenerRoute) -> bool:
        """Return whether the rule is as it was before the canary, or as the canary's step has written it."""
        states = (self.route.actions, self.attached_actions, self.shared_actions)
        return any(now.forwards_like(actions) for actions in states)


def load_canary_share(saved: StepContext | EarlierStep) -> CanaryShare | None:
    """Return the share of a canary; None if it has none."""
    record = saved.load_for_rollback(_SHARE_KEY)
    if record is None:
        return None
    return CanaryShare(**{**record, "route": ListenerRoute.from_record(record["route"])})


def _require_share(saved: StepContext | EarlierStep) -> CanaryShare:
    share = load_canary_share(saved)
    if share is None:
        raise LookupError("The rule of the canary is saved by the step's first action")
    return share


def replace_target_group(definition: Mapping[str, Any], share: CanaryShare) -> list[dict[str, Any]]:
    """Return the load balancers of the canary: its own group instead of those of the rule.

    Raises `ActionFailed` if the service is registered in none of them.
    """
    balancers = [dict(balancer) for balancer in definition.get("loadBalancers", ())]
    shared = [balancer for balancer in balancers if balancer.get("targetGroupArn") in share.route.groups]
    if not shared:
        raise ActionFailed(
            "NO_TRAFFIC_TO_SHARE",
            f"The service definition names none of the target groups that the {share.route.describe()} "
            f"forwards to ({share.route.describe_groups()}), so a canary would take traffic of another "
            "service. Correct listener and listenerRuleArn of the step.",
        )
    for balancer in shared:
        balancer["targetGroupArn"] = share.group
    return balancers


@action
@dataclass(frozen=True)
class SaveCanaryRule(Action):
    """Save the rule that the canary takes its share from, and check the canary's target group."""

    percent: int
    listener: str
    rule: str
    group: str
    tasks: int

    @property
    def title(self) -> str:
        return "Save the listener rule of the canary"

    def start(self, context: StepContext) -> None:
        name = context.load_for_rollback("service definition")["serviceName"]
        context.acquire_service_lock(name)
        if ":listener/app/" not in self.listener:
            raise ActionFailed(
                "NO_WEIGHTS",
                f"{self.listener} is no listener of an application load balancer. Only those forward a share "
                "of the traffic.",
            )
        route = read_listener_route(context, "Prod", self.listener, self.rule)
        is_served = any(count_healthy_targets(context, group) for group in route.groups)
        share = CanaryShare(route, self.group, self.percent if is_served else 0, self.tasks)
        self._refuse_used_group(context, share)
        owners = read_target_owners(context, [self.group], [])
        refuse_foreign_targets(
            context, owners, [self.group], [f"{name}{CANARY_SUFFIX}"], "It would receive the canary's share."
        )
        context.save_for_rollback(_SHARE_KEY, {**asdict(share), "route": route.to_record()})
        context.log(
            f"Prod Listener {self.listener}: {route.describe()} forwards to {route.describe_groups()}"
        )
        context.log(f"Target Group of the canary: {self.group}")
        if not is_served:
            context.log(
                f"No target behind the {route.describe()} is healthy: the canary receives no share of its "
                "traffic"
            )

    def _refuse_used_group(self, context: StepContext, share: CanaryShare) -> None:
        try:
            context.elb.get_target_groups([self.group])
        except NotFound as missing:
            raise ActionFailed("TARGET_GROUP_NOT_FOUND", missing.display_message) from missing
        if len({*share.route.named_groups, self.group}) > MAX_TARGET_GROUPS:
            raise ActionFailed(
                "TOO_MANY_TARGET_GROUPS",
                f"The {share.route.describe()} forwards to {len(share.route.named_groups)} target groups, "
                f"and AWS allows {MAX_TARGET_GROUPS} for one rule: none is left for the canary.",
            )
        for rule in context.elb.list_rules(self.listener):
            if get_target_group_weights(rule.actions).get(self.group):
                raise ActionFailed(
                    "CANARY_GROUP_RECEIVES_TRAFFIC",
                    f"Rule {rule.arn} forwards to target group {format_target_group(self.group)} already. "
                    "Give the canary a target group of its own; if an earlier canary still has its share, "
                    "roll its execution back.",
                )


@dataclass(frozen=True)
class CanaryRuleWrite(Action):
    """Write of the canary's rule. The undo restores the rule from before, unless others changed it."""

    has_undo = True

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_route_write(context, call, [_require_share(context).route])

    def may_undo(self, context: StepContext) -> bool:
        """Return True also for a rule of others without the canary: it is left alone."""
        share = _require_share(context)
        now = read_route(context, share.route)
        if share.is_own_state(now) or share.group not in now.groups:
            clear_observation(context, _FOREIGN_RULE)
            return True
        if not is_observed_twice(context, _FOREIGN_RULE, context.now()):
            return False
        raise ChangedByOthers(
            f"Somebody else changed the Prod Listener Rule {now.name} meanwhile: it forwards to "
            f"{now.describe_groups()}, the canary among them. The rollback changes nothing."
        )

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return (describe_route_restore("Prod", _require_share(saved).route),)

    def undo(self, context: StepContext) -> None:
        _restore(context, _require_share(context))

    def is_undone(self, context: StepContext) -> bool:
        share = _require_share(context)
        now = read_route(context, share.route)
        return now.forwards_like(share.route.actions) or not share.is_own_state(now)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return [build_route_check(context, "Prod", _require_share(context).route)]


@action
@dataclass(frozen=True)
class AttachCanaryGroup(CanaryRuleWrite):
    """Add the canary's target group to the rule with weight 0: ECS registers no tasks without a rule."""

    @property
    def title(self) -> str:
        return "Attach the target group of the canary"

    def start(self, context: StepContext) -> None:
        share = _require_share(context)
        if share.is_attached_before:
            return
        _write(context, share, share.attached_actions)
        context.log(f"Rule {share.route.name} names {format_target_group(share.group)} with weight 0")

    def is_done(self, context: StepContext) -> bool:
        """Return whether the rule names the group, and AWS shows the group's load balancer.

        CreateService refuses a group that seems to have none. After half a minute it is asked all the same.
        """
        share = _require_share(context)
        if not _is_written(context, share, share.attached_actions):
            return False
        (group,) = context.elb.get_target_groups([share.group])
        return bool(group.load_balancers) or is_observed_twice(context, _NO_BALANCER, context.now())


@action
@dataclass(frozen=True)
class ShareCanaryTraffic(CanaryRuleWrite):
    """Send the canary its share of the traffic."""

    moves_traffic = True

    @property
    def title(self) -> str:
        return "Send the canary its share of the traffic"

    def start(self, context: StepContext) -> None:
        share = _require_share(context)
        if share.percent == 0:
            return
        require_healthy_targets(context, [share.group], "The canary receives none.")
        context.log(f"Modifying ELB Prod Listener to forward {share.percent} % of requests to the canary")
        _write(context, share, share.shared_actions)
        context.set_outputs(trafficPercent=share.percent)

    def is_done(self, context: StepContext) -> bool:
        share = _require_share(context)
        if share.percent == 0:
            return True
        if not _is_written(context, share, share.shared_actions):
            return False
        context.log(
            f"Service {context.get_output('serviceName')} receives {share.percent} % of the traffic of the "
            f"{share.route.describe()}",
            "success",
        )
        return True

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        """Return nothing where the attachment of the group has the entry of the same rule."""
        return super().checklist(context) if _require_share(context).is_attached_before else []


@action
@dataclass(frozen=True)
class ReturnCanaryTraffic(Action):
    """Restore the rule from before the canary of this stage, before the canary is deleted."""

    @property
    def title(self) -> str:
        return "Return the traffic of the canary"

    def start(self, context: StepContext) -> None:
        canary = context.get_earlier_step("EcsCanaryDeploy")
        share = load_canary_share(canary) if canary else None
        if share is None:
            return
        context.save_for_rollback(_SHARE_KEY, {**asdict(share), "route": share.route.to_record()})
        now = read_route(context, share.route)
        if not share.is_own_state(now) and share.group in now.groups:
            raise ActionFailed(
                "SUPERSEDED",
                f"Somebody else changed the Prod Listener Rule {now.name} meanwhile: it forwards to "
                f"{now.describe_groups()}, the canary among them. The canary is not deleted. Take its target "
                "group out of the rule, delete it in AWS, and run the pipeline again.",
                outcome="SUPERSEDED",
            )
        _restore(context, share)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_route_write(context, call, [_require_share(context).route])

    def is_done(self, context: StepContext) -> bool:
        share = load_canary_share(context)
        return share is None or share.group not in read_route(context, share.route).groups


def _write(context: StepContext, share: CanaryShare, actions: list[dict[str, Any]]) -> None:
    now = read_route(context, share.route)
    if not share.is_own_state(now):
        raise _build_changed_error(now)
    write_route(context, share.route, actions)
    mark_moved(context, share.route)


def _is_written(context: StepContext, share: CanaryShare, actions: list[dict[str, Any]]) -> bool:
    """Return whether the rule forwards as written. Raises once it is certain that it does not."""
    now = read_route(context, share.route)
    if now.forwards_like(actions):
        clear_observation(context, _FOREIGN_RULE)
        return True
    if not is_observed_twice(context, _FOREIGN_RULE, context.now()):
        return False
    raise _build_changed_error(now)


def _build_changed_error(now: ListenerRoute) -> ActionFailed:
    return ActionFailed(
        "SUPERSEDED",
        f"Somebody else changed the Prod Listener Rule {now.name} since this deployment began: it forwards "
        f"to {now.describe_groups()} now. Run the pipeline again.",
        outcome="SUPERSEDED",
    )


def _restore(context: StepContext, share: CanaryShare) -> None:
    """Restore the rule unless somebody else has taken the canary out of it meanwhile."""
    now = read_route(context, share.route)
    if share.is_own_state(now):
        restore_route(context, "Prod", share.route)
    else:
        context.log(
            f"Somebody else changed the Prod Listener Rule {now.name} meanwhile: it forwards to "
            f"{now.describe_groups()}, without the canary, and stays as it is",
            "warning",
        )
