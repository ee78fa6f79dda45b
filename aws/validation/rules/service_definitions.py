"""Rules on service definitions, and detection of deployments that cannot progress."""

import math
from collections.abc import Iterator

from aws.validation.problems import ShapeProblem
from aws.validation.rules import launch_settings
from aws.validation.rules.common import RuleDocument, check_arn, check_name, check_placeholders, check_tags


def validate_service_definition(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of a service definition with valid shapes."""
    yield from check_placeholders(definition)
    yield from check_name(("serviceName",), definition.get("serviceName"), "service name")
    yield from check_tags(definition.get("tags"))
    yield from launch_settings.validate_launch_settings(definition)
    yield from _check_load_balancers(definition)
    yield from _check_scheduling(definition)
    yield from _check_percentages(definition)


def _check_load_balancers(definition: RuleDocument) -> Iterator[ShapeProblem]:
    balancers = definition.get("loadBalancers") or []
    for number, balancer in enumerate(balancers):
        path = ("loadBalancers", number)
        group = balancer.get("targetGroupArn")
        yield from check_arn((*path, "targetGroupArn"), group, "a target group")
        if not group and not balancer.get("loadBalancerName"):
            yield ShapeProblem(path, "needs a targetGroupArn")
        if group and balancer.get("loadBalancerName"):
            yield ShapeProblem(path, "give targetGroupArn or loadBalancerName, not both")
        for key in ("containerName", "containerPort"):
            if not balancer.get(key):
                yield ShapeProblem(path, f'a load balancer needs its "{key}"')
    for number, registry in enumerate(definition.get("serviceRegistries") or []):
        registry_path = ("serviceRegistries", number, "registryArn")
        yield from check_arn(registry_path, registry.get("registryArn"), "a Cloud Map service")


def _check_scheduling(definition: RuleDocument) -> Iterator[ShapeProblem]:
    count = definition.get("desiredCount")
    if definition.get("schedulingStrategy") == "DAEMON":
        if count is not None:
            yield ShapeProblem(
                ("desiredCount",), "the scheduling strategy DAEMON has no desired count; remove it"
            )
        if launch_settings.is_on_fargate(definition):
            yield ShapeProblem(("schedulingStrategy",), "the scheduling strategy DAEMON is not for Fargate")
        for key in ("placementStrategy", "volumeConfigurations"):
            if definition.get(key):
                message = "is not possible with the scheduling strategy DAEMON; remove it"
                yield ShapeProblem((key,), message)
    elif count is None:
        message = "without desiredCount AWS refuses to create the service (an update keeps the count)"
        yield ShapeProblem((), message, is_warning=True)
    if isinstance(count, int) and count < 0:
        yield ShapeProblem(("desiredCount",), f"is {count}; it cannot be negative")


def _check_percentages(definition: RuleDocument) -> Iterator[ShapeProblem]:
    configuration = definition.get("deploymentConfiguration") or {}
    path = ("deploymentConfiguration",)
    is_daemon = definition.get("schedulingStrategy") == "DAEMON"
    minimum, maximum = (
        configuration.get("minimumHealthyPercent", 0 if is_daemon else 100),
        configuration.get("maximumPercent", 100 if is_daemon else 200),
    )
    if not isinstance(minimum, int) or not isinstance(maximum, int):
        return
    for key, percent in (("minimumHealthyPercent", minimum), ("maximumPercent", maximum)):
        if percent < 0:
            yield ShapeProblem((*path, key), f"is {percent}; it cannot be negative")
    if is_daemon and maximum != 100:
        message = f"is {maximum}; with the scheduling strategy DAEMON it has to be 100"
        yield ShapeProblem((*path, "maximumPercent"), message)
    if definition.get("availabilityZoneRebalancing") == "ENABLED" and maximum <= 100:
        message = "availabilityZoneRebalancing needs a maximumPercent above 100"
        yield ShapeProblem((*path, "maximumPercent"), message)
    if _is_rolling(definition):
        yield from _check_deadlock(definition.get("desiredCount"), minimum, maximum)


def _is_rolling(definition: RuleDocument) -> bool:
    controller = (definition.get("deploymentController") or {}).get("type", "ECS")
    strategy = (definition.get("deploymentConfiguration") or {}).get("strategy", "ROLLING")
    is_daemon = definition.get("schedulingStrategy") == "DAEMON"
    return controller == "ECS" and strategy == "ROLLING" and not is_daemon


def _check_deadlock(count: object, minimum: int, maximum: int) -> Iterator[ShapeProblem]:
    """Yield a problem if rounding leaves no room to replace a task: ECS rounds maximum down, minimum up."""
    path = ("deploymentConfiguration",)
    if maximum <= minimum:
        message = (
            f"with minimumHealthyPercent {minimum} and maximumPercent {maximum} ECS may neither "
            "stop an old task nor start a new one; raise the maximum or lower the minimum"
        )
        yield ShapeProblem(path, message)
    elif (
        isinstance(count, int)
        and count > 0
        and count * maximum // 100 <= count <= math.ceil(count * minimum / 100)
    ):
        message = (
            f"with {count} tasks, minimumHealthyPercent {minimum} and maximumPercent {maximum} ECS may "
            "neither stop an old task nor start a new one (it rounds the most down and the least up)"
        )
        yield ShapeProblem(path, message, is_warning=True)
