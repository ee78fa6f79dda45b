"""Reasons why the strategy of a running service cannot be changed now."""

import re
from collections.abc import Iterator
from typing import Final

from inventory.strategy_changes.readings import ServiceReading
from inventory.strategy_changes.strategies import (
    CLASSIC,
    NATIVE_STRATEGIES,
    ROLLING,
    StrategySettings,
    describe_strategy_name,
)
from steps.actions.ecs_service.controller_changes import list_controller_obstacles
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.snapshots import CONTROLLER_TOOLS, ECS, get_controller

_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}", re.ASCII)


def list_service_obstacles(reading: ServiceReading, strategy: str) -> Iterator[str]:
    """Yield why no settings make the strategy possible for the service as it runs, each with the next "
    "step."""
    service = reading.service
    if not service:
        yield (
            f"ECS runs no service {reading.name} in this cluster. Choose the strategy in the pipeline "
            "editor: there is no traffic to keep."
        )
        return
    if is_daemon(service) and strategy != ROLLING:
        yield "DAEMON services are deployed rolling only. Use schedulingStrategy REPLICA."
    if get_controller(service) != ECS:
        yield from list_controller_obstacles(service)
    elif len(service.get("deployments") or ()) > 1:
        yield "A deployment of the service is running. Wait until it ends."
    pair = {reading.strategy, strategy}
    if CLASSIC in pair and pair & {*NATIVE_STRATEGIES, *CONTROLLER_TOOLS}:
        yield (
            f"{describe_strategy_name(reading.strategy)} changes to rolling first. Change to rolling, run "
            "the pipeline, then change again."
        )
    balancers = service.get("loadBalancers") or ()
    if strategy != ROLLING and not (balancers or service.get("taskSets")):
        yield "The service has no load balancer, so there is no traffic to shift. Add one first."
    if len(balancers) > 1:
        yield (
            "The service has several load balancers. Change the strategy in the pipeline and in the "
            "service definition."
        )


def list_setting_obstacles(reading: ServiceReading, settings: StrategySettings) -> Iterator[str]:
    """Yield why a change with these settings would lose traffic or be refused, each with the next step."""
    if not (reading.service.get("loadBalancers") or reading.service.get("taskSets")):
        return
    if settings.strategy != CLASSIC and not settings.target_group:
        yield (
            "TRAFFIC_WOULD_BE_LOST: no single target group of the service receives the production traffic. "
            "Finish or roll back the shift of traffic first."
        )
    if settings.strategy != ROLLING:
        yield from _list_rule_obstacles(reading, settings)


def _list_rule_obstacles(reading: ServiceReading, settings: StrategySettings) -> Iterator[str]:
    production = reading.get_rule(settings.production.key) if settings.production else None
    test = reading.get_rule(settings.test.key) if settings.test else None
    if production is None:
        yield "Choose the production rule."
        return
    if not set(production.groups) & set(reading.live_groups):
        yield f"{production.title} does not send traffic to the service. Choose its production rule."
    if settings.test and settings.test.key == production.key:
        yield "The production rule and the test rule are the same. Choose two rules."
    if settings.strategy == CLASSIC:
        if test is None:
            yield "Choose the stage rule: the new version starts behind it."
        elif set(test.groups) & set(production.groups):
            yield "Both rules lead to the same target group. Give the stage rule a target group of its own."
        return
    yield from _list_native_obstacles(reading, settings)


def _list_native_obstacles(reading: ServiceReading, settings: StrategySettings) -> Iterator[str]:
    if not settings.alternate_group:
        yield (
            "Choose the target group for the new version. Create one of the same port and type if none is "
            "free."
        )
    elif settings.alternate_group == settings.target_group:
        yield "The target group for the new version has the production traffic. Choose another one."
    allowed = {reference.key for reference in (settings.production, settings.test) if reference}
    for rule in reading.rules:
        if settings.alternate_group in rule.groups and rule.key not in allowed:
            yield (
                f"{rule.title} sends traffic to the target group for the new version. Choose another "
                "target group, "
                "or this rule as the test rule."
            )
    if not _ROLE.fullmatch(settings.role):
        yield "Enter the ARN of the role with which ECS changes the rules."
