"""What CreateService refuses beyond shapes, and deployments that could never move."""

import math
from collections.abc import Iterator

from aws.problems import Path, ShapeProblem, shown
from aws.rules.base import (
    Document,
    arn_problems,
    is_settled,
    left_placeholders,
    name_problems,
    tag_problems,
)

MOST_SUBNETS, MOST_GROUPS = 16, 5
_VPC = ("networkConfiguration", "awsvpcConfiguration")


def problems(definition: Document) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in a service definition whose shapes are right."""
    yield from left_placeholders(definition)
    yield from name_problems(("serviceName",), definition.get("serviceName"), "service name")
    yield from tag_problems(definition.get("tags"))
    yield from _launch(definition)
    yield from _network(definition)
    yield from _load_balancers(definition)
    yield from _scheduling(definition)
    yield from _percentages(definition)


def _launch(definition: Document) -> Iterator[ShapeProblem]:
    launch_type = definition.get("launchType")
    if launch_type and definition.get("capacityProviderStrategy"):
        message = "give launchType or capacityProviderStrategy, not both"
        yield ShapeProblem(("capacityProviderStrategy",), message)
    if launch_type == "FARGATE":
        for key in ("placementConstraints", "placementStrategy"):
            if definition.get(key):
                yield ShapeProblem((key,), "is not possible on Fargate; remove it")
    elif launch_type and definition.get("platformVersion"):
        yield ShapeProblem(("platformVersion",), f"is only for Fargate, not for {launch_type}")


def _network(definition: Document) -> Iterator[ShapeProblem]:
    vpc = (definition.get("networkConfiguration") or {}).get("awsvpcConfiguration")
    if vpc is None:
        if definition.get("launchType") == "FARGATE":
            message = "Fargate needs networkConfiguration.awsvpcConfiguration with subnets"
            yield ShapeProblem(("networkConfiguration",), message)
        return
    subnets, groups = vpc.get("subnets") or [], vpc.get("securityGroups") or []
    if not subnets:
        yield ShapeProblem((*_VPC, "subnets"), "needs at least one subnet")
    if len(subnets) > MOST_SUBNETS:
        yield ShapeProblem((*_VPC, "subnets"), f"has {len(subnets)} subnets; at most {MOST_SUBNETS} allowed")
    if len(groups) > MOST_GROUPS:
        yield ShapeProblem(
            (*_VPC, "securityGroups"), f"has {len(groups)} groups; at most {MOST_GROUPS} allowed"
        )
    yield from _ids((*_VPC, "subnets"), subnets, "subnet-")
    yield from _ids((*_VPC, "securityGroups"), groups, "sg-")
    if vpc.get("assignPublicIp") == "ENABLED" and definition.get("launchType") in ("EC2", "EXTERNAL"):
        yield ShapeProblem((*_VPC, "assignPublicIp"), "public addresses are only for Fargate")


def _ids(path: Path, ids: list[object], prefix: str) -> Iterator[ShapeProblem]:
    for number, one in enumerate(ids):
        if is_settled(one) and not str(one).startswith(prefix):
            yield ShapeProblem((*path, number), f"{shown(one)} is not an id; those begin with {prefix}")


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
