"""Actions that lock the service pair and find its target groups from live traffic (N08, R231)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws.apis.elb import LoadBalancer
from aws.errors import NotFound
from steps.actions.base import Action, ActionFailed, action
from steps.actions.blue_green.listener_rules import ListenerRoute, require_forward
from steps.actions.blue_green.traffic import (
    BlueGreenTraffic,
    ListenerPair,
    is_production_route,
    list_live_routes,
)
from steps.actions.context import StepContext
from steps.actions.manifests import SERVICE_DEFINITION

PLACEHOLDER_ARN_PREFIX = "arn:aws:elasticloadbalancing:::targetgroup/not-known-yet/"


def get_expression_name(number: int) -> str:
    """Return the expression of the target group of the first, second, third pair of listeners."""
    return "targetGroupArn" if number == 1 else f"targetGroupArn{number}"


@action
@dataclass(frozen=True)
class LockBlueGreenService(Action):
    """Acquire the lock of the pair of ECS services before any read: others may be swapping now.

    `pairs` is the number of listener pairs of the step.
    """

    pairs: int = 1

    @property
    def title(self) -> str:
        return "Wait for the service lock"

    def start(self, context: StepContext) -> None:
        if not context.step_inputs.list_sources(SERVICE_DEFINITION):
            return
        # Only the service name and the presence of the expression matter here.
        placeholders = {
            get_expression_name(number): f"{PLACEHOLDER_ARN_PREFIX}{number}"
            for number in range(1, self.pairs + 1)
        }
        context.set_outputs(**placeholders)
        definition = context.step_inputs.load_manifest(SERVICE_DEFINITION).value
        balancers = definition.get("loadBalancers", ())
        if not any(balancer.get("targetGroupArn") in placeholders.values() for balancer in balancers):
            raise ActionFailed(
                "TARGET_GROUP_EXPRESSION_MISSING",
                "The service definition names no target group with <+targetGroupArn>. Write "
                "`targetGroupArn: <+targetGroupArn>` under loadBalancers, with containerName and "
                "containerPort: a fixed target group would be the one of production every second time.",
            )
        context.acquire_service_lock(definition["serviceName"])


@dataclass(frozen=True)
class ListenerReferences:
    """The two rules of one pair as a step names them; an empty rule ARN is the default rule (T13)."""

    load_balancer: str
    prod_listener: str
    prod_rule: str
    stage_listener: str
    stage_rule: str


@action
@dataclass(frozen=True)
class FindTargetGroups(Action):
    """Read the targets of the prod rules and the stage rules, once per execution.

    `pairs` are `ListenerReferences`, as mappings.
    """

    pairs: list[dict[str, str]]

    @property
    def title(self) -> str:
        return "Find the target groups from live traffic"

    def start(self, context: StepContext) -> None:
        traffic = BlueGreenTraffic(
            tuple(_read_pair(context, ListenerReferences(**references)) for references in self.pairs)
        )
        _refuse_unusable_pairs(traffic)
        _refuse_live_group(context, traffic)
        context.save_for_rollback("traffic", [pair.to_record() for pair in traffic.pairs])
        context.set_outputs(
            **{get_expression_name(number): pair.stage_group for number, pair in enumerate(traffic.pairs, 1)}
        )
        for pair in traffic.pairs:
            _log_pair(context, pair)
        if traffic.is_shared:
            context.log(
                "Prod and Stage Listener Rules forward to the same Target Group: the new version receives "
                "production traffic as soon as it is healthy, before the swap",
                "warning",
            )
        context.log("")


def _read_pair(context: StepContext, references: ListenerReferences) -> ListenerPair:
    balancer = _read_load_balancer(context, references.load_balancer)
    prod = read_listener_route(context, "Prod", references.prod_listener, references.prod_rule, balancer)
    stage = read_listener_route(context, "Stage", references.stage_listener, references.stage_rule, balancer)
    (stage_group,) = context.elb.get_target_groups([stage.first_group])
    return ListenerPair(
        prod=prod,
        stage=stage,
        stage_group=stage.first_group,
        port=stage_group.port,
        has_weights=balancer.type == "application",
        balancer=balancer.arn,
    )


def _read_load_balancer(context: StepContext, name: str) -> LoadBalancer:
    try:
        return context.elb.get_load_balancer(name)
    except NotFound as missing:
        raise ActionFailed(
            "LOAD_BALANCER_NOT_FOUND",
            f"There is no load balancer {name} in this region of the connector's account. "
            "Check loadBalancer and the region of the infrastructure; where the connector goes through a "
            "delegate, check that the delegate reaches the load balancer.",
        ) from missing


def read_listener_route(
    context: StepContext, role: str, listener_arn: str, rule_arn: str, balancer: LoadBalancer | None = None
) -> ListenerRoute:
    """Return a rule, the default one without a rule ARN, that forwards to target groups.

    `balancer` is the required load balancer; without one, it is any application load balancer. Raises
    `ActionFailed`.
    """
    try:
        listener = context.elb.get_listener(listener_arn)
        if balancer is not None and listener.load_balancer != balancer.arn:
            raise _build_wrong_owner_error(role, "Listener", listener_arn, balancer.name)
        if balancer is not None and balancer.type != "application":
            route = ListenerRoute(listener_arn, listener.port, "", True, [], listener.actions)
        else:
            route = _read_rule(context, role, listener.port, listener_arn, rule_arn)
    except NotFound as missing:
        raise ActionFailed(
            "LISTENER_NOT_FOUND", f"{missing.display_message} Check the {role} Listener."
        ) from missing
    require_forward(route, role)
    return route


def _read_rule(context: StepContext, role: str, port: int, listener: str, rule_arn: str) -> ListenerRoute:
    if rule_arn and not _is_rule_of(rule_arn, listener):
        raise _build_wrong_owner_error(role, "Listener Rule", rule_arn, f"the {role} Listener {listener}")
    if rule_arn:
        rule = context.elb.get_rule(rule_arn)
    else:
        rule = next(candidate for candidate in context.elb.list_rules(listener) if candidate.is_default)
    return ListenerRoute(listener, port, rule.arn, rule.is_default, rule.conditions, rule.actions)


def _is_rule_of(rule: str, listener: str) -> bool:
    return rule.rpartition("/")[0] == listener.replace(":listener/", ":listener-rule/")


def _build_wrong_owner_error(role: str, kind: str, arn: str, owner: str) -> ActionFailed:
    return ActionFailed(
        "LISTENER_NOT_FOUND",
        f"The {role} {kind} {arn} does not belong to {owner}. Choose one of those that {owner} has.",
    )


def _refuse_unusable_pairs(traffic: BlueGreenTraffic) -> None:
    """Refuse a stage group that receives a part of production; one shared group is allowed (N08).

    A rule that names further groups with weight 0 is no shared group: a shift to 100 percent leaves it so.
    """
    prod = list(dict.fromkeys(group for pair in traffic.pairs for group in pair.prod.named_groups))
    live_group = next((group for group in traffic.stage_groups if group in traffic.prod_groups), "")
    is_shared = all(pair.is_shared and len(pair.prod.named_groups) == 1 for pair in traffic.pairs)
    if live_group and not is_shared:
        raise ActionFailed(
            "STAGE_RECEIVES_PRODUCTION",
            f"The first target group of the Stage Listener Rule, {live_group}, is one of several of the "
            f"production rules ({', '.join(prod)}), and receives production traffic. Slipway does not deploy "
            "into it. If an earlier deployment ended while it shifted traffic, roll it back; else let the "
            "stage rule forward to a target group of its own.",
        )
    routes = [route for _, route in traffic.list_routes()]
    duplicate = next((route for route in routes if routes.count(route) > 1), None)
    if duplicate is not None and not traffic.is_shared:
        raise ActionFailed(
            "LISTENER_RULE_TWICE",
            f"Rule {duplicate.name} of {duplicate.listener} is named as prod rule and as stage rule. Name "
            "two.",
        )


def _refuse_live_group(context: StepContext, traffic: BlueGreenTraffic) -> None:
    """Refuse a stage group that another rule forwards to (N08)."""
    if traffic.is_shared:
        return
    routes = list_live_routes(context, traffic)
    live = {group: route.describe() for route in routes for group in route.groups}
    _log_other_rules(context, traffic, routes)
    live_group = next((group for group in traffic.stage_groups if group in live), "")
    if live_group:
        raise ActionFailed(
            "STAGE_RECEIVES_PRODUCTION",
            f"The target group of the Stage Listener Rule, {live_group}, receives other traffic "
            f"too: the {live[live_group]} forwards to it. Slipway does not deploy into it: let that "
            "rule forward to the target group of the prod rule, or give it one of its own.",
        )


def _log_other_rules(
    context: StepContext, traffic: BlueGreenTraffic, routes: Sequence[ListenerRoute]
) -> None:
    """Add a note for each rule that forwards to the old version and is not swapped by this release."""
    for route in routes:
        shared_groups = [group for group in route.groups if group in traffic.prod_groups]
        if shared_groups and not is_production_route(route, traffic.pairs):
            context.add_note(
                f"The {route.describe()} of {route.listener} forwards to {', '.join(shared_groups)} too, "
                "and this release does not move it: it goes on leading to the old version. Add it to "
                "moreListeners of the step."
            )


def _log_pair(context: StepContext, pair: ListenerPair) -> None:
    prod, stage = pair.prod, pair.stage
    context.log(f"Prod Listener {prod.listener}: {prod.describe()} forwards to {_join_groups(prod.groups)}")
    context.log(
        f"Stage Listener {stage.listener}: {stage.describe()} forwards to {_join_groups(stage.groups)}"
    )
    context.log(f"Target Group of the new version: {pair.stage_group}")


def _join_groups(groups: Sequence[Any]) -> str:
    return ", ".join(str(group) for group in groups)
