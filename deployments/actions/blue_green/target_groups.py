"""The actions that find, from live traffic, the target groups of a blue/green deployment (N08, R231)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws.elb_types import LoadBalancer
from aws.errors import NotFound
from deployments.actions.base import Action, ActionFailed, Rollout, action
from deployments.actions.blue_green.routes import Route, require_forward
from deployments.actions.blue_green.traffic import Traffic, live_groups
from deployments.actions.manifests import SERVICE_DEFINITION

NOT_KNOWN_YET = "arn:aws:elasticloadbalancing:::targetgroup/not-known-yet/0"


@action
@dataclass(frozen=True)
class HoldBlueGreenService(Action):
    """Queue for the pair of ECS services before anything is read of them: others may be swapping now."""

    @property
    def title(self) -> str:
        return "Wait for the turn of this ECS service"

    def start(self, rollout: Rollout) -> None:
        if not rollout.supplies.sources(SERVICE_DEFINITION):
            return
        # Only the name matters yet, and whether the expression is there at all.
        rollout.learn(targetGroupArn=NOT_KNOWN_YET)
        definition = rollout.supplies.load(SERVICE_DEFINITION).value
        balancers = definition.get("loadBalancers", ())
        if not any(one.get("targetGroupArn") == NOT_KNOWN_YET for one in balancers):
            raise ActionFailed(
                "TARGET_GROUP_EXPRESSION_MISSING",
                "The service definition names no target group with <+targetGroupArn>. Write "
                "`targetGroupArn: <+targetGroupArn>` under loadBalancers, with containerName and "
                "containerPort: a fixed target group would be the one of production every second time.",
            )
        rollout.take_slot(definition["serviceName"])


@action
@dataclass(frozen=True)
class FindTargetGroups(Action):
    """Read where the production rule and the stage rule send traffic now; found once, never again."""

    load_balancer: str
    prod_listener: str
    prod_rule: str
    stage_listener: str
    stage_rule: str

    @property
    def title(self) -> str:
        return "Find the target groups from live traffic"

    def start(self, rollout: Rollout) -> None:
        balancer = self._balancer(rollout)
        prod = _read(rollout, balancer, "Prod", self.prod_listener, self.prod_rule)
        stage = _read(rollout, balancer, "Stage", self.stage_listener, self.stage_rule)
        _refuse_shared_group(prod, stage)
        group = stage.first_group
        (found,) = rollout.elb.target_groups([group])
        traffic = {
            "prod": prod.to_memory(),
            "stage": stage.to_memory(),
            "stage_group": group,
            "prod_groups": prod.groups,
            "port": found.port,
            "has_weights": balancer.type == "application",
            "balancer": balancer.arn,
        }
        _refuse_live_group(rollout, Traffic.from_memory(traffic))
        rollout.remember("traffic", traffic)
        rollout.learn(targetGroupArn=group)
        _tell(rollout, prod, stage, group)

    def _balancer(self, rollout: Rollout) -> LoadBalancer:
        try:
            return rollout.elb.load_balancer(self.load_balancer)
        except NotFound as missing:
            raise ActionFailed(
                "LOAD_BALANCER_NOT_FOUND",
                f"There is no load balancer {self.load_balancer} in this region of the connector's account. "
                "Check loadBalancer and the region of the infrastructure; where the connector goes through a "
                "delegate, check that the delegate reaches the load balancer.",
            ) from missing


def _read(rollout: Rollout, balancer: LoadBalancer, which: str, listener_arn: str, rule_arn: str) -> Route:
    try:
        listener = rollout.elb.listener(listener_arn)
        if listener.load_balancer != balancer.arn:
            raise _elsewhere(which, "Listener", listener_arn, balancer.name)
        if balancer.type != "application":
            route = Route(listener_arn, listener.port, "", True, [], listener.actions)
        else:
            route = _read_rule(rollout, which, listener.port, listener_arn, rule_arn)
    except NotFound as missing:
        raise ActionFailed(
            "LISTENER_NOT_FOUND", f"{missing.sentence} Check the {which} Listener."
        ) from missing
    require_forward(route, which)
    return route


def _read_rule(rollout: Rollout, which: str, port: int, listener: str, rule_arn: str) -> Route:
    if rule_arn and not _is_rule_of(rule_arn, listener):
        raise _elsewhere(which, "Listener Rule", rule_arn, f"the {which} Listener {listener}")
    if rule_arn:
        rule = rollout.elb.rule(rule_arn)
    else:
        rule = next(one for one in rollout.elb.rules(listener) if one.is_default)
    return Route(listener, port, rule.arn, rule.is_default, rule.conditions, rule.actions)


def _is_rule_of(rule: str, listener: str) -> bool:
    return rule.rpartition("/")[0] == listener.replace(":listener/", ":listener-rule/")


def _elsewhere(which: str, what: str, arn: str, owner: str) -> ActionFailed:
    return ActionFailed(
        "LISTENER_NOT_FOUND",
        f"The {which} {what} {arn} does not belong to {owner}. Choose one of those that {owner} has.",
    )


def _refuse_shared_group(prod: Route, stage: Route) -> None:
    """One group behind both rules is a way to work; a group that gets a part of production is not (N08)."""
    group = stage.first_group
    if group in prod.groups and len(prod.groups) > 1:
        raise ActionFailed(
            "STAGE_RECEIVES_PRODUCTION",
            f"The first target group of the Stage Listener Rule, {group}, is one of several that receive "
            f"production traffic ({', '.join(prod.groups)}). Slipway does not deploy into it: let the stage "
            "rule forward to a target group of its own.",
        )


def _refuse_live_group(rollout: Rollout, traffic: Traffic) -> None:
    """Another rule than these two may lead to the group that would be deployed into (N08)."""
    if traffic.is_shared:
        return
    live = live_groups(rollout, traffic)
    if traffic.stage_group in live:
        raise ActionFailed(
            "STAGE_RECEIVES_PRODUCTION",
            f"The target group of the Stage Listener Rule, {traffic.stage_group}, receives other traffic "
            f"too: the {live[traffic.stage_group]} forwards to it. Slipway does not deploy into it: let that "
            "rule forward to the target group of the prod rule, or give it one of its own.",
        )


def _tell(rollout: Rollout, prod: Route, stage: Route, group: str) -> None:
    rollout.log(f"Prod Listener {prod.listener}: {prod.words()} forwards to {_listed(prod.groups)}")
    rollout.log(f"Stage Listener {stage.listener}: {stage.words()} forwards to {_listed(stage.groups)}")
    rollout.log(f"Target Group of the new version: {group}")
    if group in prod.groups:
        rollout.log(
            "Prod and Stage Listener Rules forward to the same Target Group: the new version receives "
            "production traffic as soon as it is healthy, before the swap",
            "warning",
        )
    rollout.log("")


def _listed(groups: Sequence[Any]) -> str:
    return ", ".join(str(one) for one in groups)
