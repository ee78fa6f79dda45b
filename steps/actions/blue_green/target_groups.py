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
    """What a service definition calls the target group of the first, second, third pair of listeners."""
    return "targetGroupArn" if number == 1 else f"targetGroupArn{number}"


@action
@dataclass(frozen=True)
class LockBlueGreenService(Action):
    """Queue for the pair of ECS services before anything is read of them: others may be swapping now.

    `pairs` is how many pairs of listeners the step has.
    """

    pairs: int = 1

    @property
    def title(self) -> str:
        return "Wait for the service lock"

    def start(self, context: StepContext) -> None:
        if not context.step_inputs.list_sources(SERVICE_DEFINITION):
            return
        # Only the name matters yet, and whether the expression is there at all.
        unknown = {
            get_expression_name(number): f"{PLACEHOLDER_ARN_PREFIX}{number}"
            for number in range(1, self.pairs + 1)
        }
        context.set_outputs(**unknown)
        definition = context.step_inputs.load_manifest(SERVICE_DEFINITION).value
        balancers = definition.get("loadBalancers", ())
        if not any(one.get("targetGroupArn") in unknown.values() for one in balancers):
            raise ActionFailed(
                "TARGET_GROUP_EXPRESSION_MISSING",
                "The service definition names no target group with <+targetGroupArn>. Write "
                "`targetGroupArn: <+targetGroupArn>` under loadBalancers, with containerName and "
                "containerPort: a fixed target group would be the one of production every second time.",
            )
        context.acquire_service_lock(definition["serviceName"])


@dataclass(frozen=True)
class ListenerReferences:
    """The two rules of one pair as a step names them; without a rule ARN the default rule is meant (T13)."""

    load_balancer: str
    prod_listener: str
    prod_rule: str
    stage_listener: str
    stage_rule: str


@action
@dataclass(frozen=True)
class FindTargetGroups(Action):
    """Read where the prod rules and the stage rules send traffic now; found once, never again.

    `pairs` are `Listeners`, as mappings.
    """

    pairs: list[dict[str, str]]

    @property
    def title(self) -> str:
        return "Find the target groups from live traffic"

    def start(self, context: StepContext) -> None:
        traffic = BlueGreenTraffic(
            tuple(_read_pair(context, ListenerReferences(**one)) for one in self.pairs)
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


def _read_pair(context: StepContext, named: ListenerReferences) -> ListenerPair:
    balancer = _read_load_balancer(context, named.load_balancer)
    prod = _read_listener_route(context, balancer, "Prod", named.prod_listener, named.prod_rule)
    stage = _read_listener_route(context, balancer, "Stage", named.stage_listener, named.stage_rule)
    (found,) = context.elb.get_target_groups([stage.first_group])
    return ListenerPair(
        prod=prod,
        stage=stage,
        stage_group=stage.first_group,
        port=found.port,
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


def _read_listener_route(
    context: StepContext, balancer: LoadBalancer, which: str, listener_arn: str, rule_arn: str
) -> ListenerRoute:
    try:
        listener = context.elb.get_listener(listener_arn)
        if listener.load_balancer != balancer.arn:
            raise _build_wrong_owner_error(which, "Listener", listener_arn, balancer.name)
        if balancer.type != "application":
            route = ListenerRoute(listener_arn, listener.port, "", True, [], listener.actions)
        else:
            route = _read_rule(context, which, listener.port, listener_arn, rule_arn)
    except NotFound as missing:
        raise ActionFailed(
            "LISTENER_NOT_FOUND", f"{missing.display_message} Check the {which} Listener."
        ) from missing
    require_forward(route, which)
    return route


def _read_rule(context: StepContext, which: str, port: int, listener: str, rule_arn: str) -> ListenerRoute:
    if rule_arn and not _is_rule_of(rule_arn, listener):
        raise _build_wrong_owner_error(which, "Listener Rule", rule_arn, f"the {which} Listener {listener}")
    if rule_arn:
        rule = context.elb.get_rule(rule_arn)
    else:
        rule = next(one for one in context.elb.list_rules(listener) if one.is_default)
    return ListenerRoute(listener, port, rule.arn, rule.is_default, rule.conditions, rule.actions)


def _is_rule_of(rule: str, listener: str) -> bool:
    return rule.rpartition("/")[0] == listener.replace(":listener/", ":listener-rule/")


def _build_wrong_owner_error(which: str, what: str, arn: str, owner: str) -> ActionFailed:
    return ActionFailed(
        "LISTENER_NOT_FOUND",
        f"The {which} {what} {arn} does not belong to {owner}. Choose one of those that {owner} has.",
    )


def _refuse_unusable_pairs(traffic: BlueGreenTraffic) -> None:
    """One group behind both rules is a way to work; a group that gets a part of production is not (N08)."""
    prod = traffic.prod_groups
    hit = next((group for group in traffic.stage_groups if group in prod), "")
    is_whole = all(pair.is_shared and len(pair.prod.groups) == 1 for pair in traffic.pairs)
    if hit and not is_whole:
        raise ActionFailed(
            "STAGE_RECEIVES_PRODUCTION",
            f"The first target group of the Stage Listener Rule, {hit}, is one of several that receive "
            f"production traffic ({', '.join(prod)}). Slipway does not deploy into it: let the stage "
            "rule forward to a target group of its own.",
        )
    routes = [route for _, route in traffic.routes()]
    twice = next((one for one in routes if routes.count(one) > 1), None)
    if twice is not None and not traffic.is_shared:
        raise ActionFailed(
            "LISTENER_RULE_TWICE",
            f"Rule {twice.name} of {twice.listener} is named as prod rule and as stage rule. Name two.",
        )


def _refuse_live_group(context: StepContext, traffic: BlueGreenTraffic) -> None:
    """Another rule than these may lead to the group that would be deployed into (N08)."""
    if traffic.is_shared:
        return
    routes = list_live_routes(context, traffic)
    live = {group: route.words() for route in routes for group in route.groups}
    _log_other_rules(context, traffic, routes)
    hit = next((group for group in traffic.stage_groups if group in live), "")
    if hit:
        raise ActionFailed(
            "STAGE_RECEIVES_PRODUCTION",
            f"The target group of the Stage Listener Rule, {hit}, receives other traffic "
            f"too: the {live[hit]} forwards to it. Slipway does not deploy into it: let that "
            "rule forward to the target group of the prod rule, or give it one of its own.",
        )


def _log_other_rules(
    context: StepContext, traffic: BlueGreenTraffic, routes: Sequence[ListenerRoute]
) -> None:
    """Name the rules that lead to the old version too, and that no swap of this release moves."""
    for route in routes:
        shared_groups = [group for group in route.groups if group in traffic.prod_groups]
        if shared_groups and not is_production_route(route, traffic.pairs):
            context.add_note(
                f"The {route.words()} of {route.listener} forwards to {', '.join(shared_groups)} too, "
                "and this release does not move it: it goes on leading to the old version. Add it to "
                "moreListeners of the step."
            )


def _log_pair(context: StepContext, pair: ListenerPair) -> None:
    prod, stage = pair.prod, pair.stage
    context.log(f"Prod Listener {prod.listener}: {prod.words()} forwards to {_join_groups(prod.groups)}")
    context.log(f"Stage Listener {stage.listener}: {stage.words()} forwards to {_join_groups(stage.groups)}")
    context.log(f"Target Group of the new version: {pair.stage_group}")


def _join_groups(groups: Sequence[Any]) -> str:
    return ", ".join(str(one) for one in groups)
