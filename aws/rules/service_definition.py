"""What CreateService refuses beyond shapes, and deployments that could never move."""

import math
from collections.abc import Iterator

from aws.problems import ShapeProblem
from aws.rules import launching
from aws.rules.base import Document, arn_problems, left_placeholders, name_problems, tag_problems


def problems(definition: Document) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in a service definition whose shapes are right."""
    yield from left_placeholders(definition)
    yield from name_problems(("serviceName",), definition.get("serviceName"), "service name")
    yield from tag_problems(definition.get("tags"))
    yield from launching.problems(definition)
    yield from _load_balancers(definition)
    yield from _scheduling(definition)
    yield from _percentages(definition)


def _load_balancers(definition: Document) -> Iterator[ShapeProblem]:
    balancers = definition.get("loadBalancers") or []
    for number, balancer in enumerate(balancers):
        place = ("loadBalancers", number)
        group = balancer.get("targetGroupArn")
        yield from arn_problems((*place, "targetGroupArn"), group, "a target group")
        if not group and not balancer.get("loadBalancerName"):
            yield ShapeProblem(place, "needs a targetGroupArn")
        if group and balancer.get("loadBalancerName"):
            yield ShapeProblem(place, "give targetGroupArn or loadBalancerName, not both")
        for key in ("containerName", "containerPort"):
            if not balancer.get(key):
                yield ShapeProblem(place, f'a load balancer needs its "{key}"')
    for number, registry in enumerate(definition.get("serviceRegistries") or []):
        where = ("serviceRegistries", number, "registryArn")
        yield from arn_problems(where, registry.get("registryArn"), "a Cloud Map service")


def _scheduling(definition: Document) -> Iterator[ShapeProblem]:
    count = definition.get("desiredCount")
    if definition.get("schedulingStrategy") == "DAEMON":
        if count is not None:
            yield ShapeProblem(
                ("desiredCount",), "the scheduling strategy DAEMON has no desired count; remove it"
            )
        if definition.get("launchType") == "FARGATE":
            yield ShapeProblem(("schedulingStrategy",), "the scheduling strategy DAEMON is not for Fargate")
    elif count is None:
        message = "without desiredCount AWS refuses to create the service (an update keeps the count)"
        yield ShapeProblem((), message, is_warning=True)
    if isinstance(count, int) and count < 0:
        yield ShapeProblem(("desiredCount",), f"is {count}; it cannot be negative")


def _percentages(definition: Document) -> Iterator[ShapeProblem]:
    configuration = definition.get("deploymentConfiguration") or {}
    place = ("deploymentConfiguration",)
    least, most = configuration.get("minimumHealthyPercent", 100), configuration.get("maximumPercent", 200)
    if not isinstance(least, int) or not isinstance(most, int):
        return
    for key, percent in (("minimumHealthyPercent", least), ("maximumPercent", most)):
        if percent < 0:
            yield ShapeProblem((*place, key), f"is {percent}; it cannot be negative")
    if definition.get("availabilityZoneRebalancing") == "ENABLED" and most <= 100:
        message = "availabilityZoneRebalancing needs a maximumPercent above 100"
        yield ShapeProblem((*place, "maximumPercent"), message)
    if _is_rolling(definition):
        yield from _deadlock(definition.get("desiredCount"), least, most)


def _is_rolling(definition: Document) -> bool:
    controller = (definition.get("deploymentController") or {}).get("type", "ECS")
    strategy = (definition.get("deploymentConfiguration") or {}).get("strategy", "ROLLING")
    is_daemon = definition.get("schedulingStrategy") == "DAEMON"
    return controller == "ECS" and strategy == "ROLLING" and not is_daemon


def _deadlock(count: object, least: int, most: int) -> Iterator[ShapeProblem]:
    """ECS rounds the most tasks down and the least up; with no room between, no task is ever replaced."""
    place = ("deploymentConfiguration",)
    if most <= least:
        message = (
            f"with minimumHealthyPercent {least} and maximumPercent {most} ECS may neither stop an old task "
            "nor start a new one; raise the maximum or lower the minimum"
        )
        yield ShapeProblem(place, message)
    elif (
        isinstance(count, int)
        and count > 0
        and count * most // 100 <= count <= math.ceil(count * least / 100)
    ):
        message = (
            f"with {count} tasks, minimumHealthyPercent {least} and maximumPercent {most} ECS may neither "
            "stop an old task nor start a new one (it rounds the most down and the least up)"
        )
        yield ShapeProblem(place, message, is_warning=True)
