"""Rules on launch type, capacity providers and network, and on RunTask requests."""

from collections.abc import Iterator

from aws.validation.problems import ParameterPath, ShapeProblem, quote_value
from aws.validation.rules.common import RuleDocument, check_placeholders, check_tags, is_literal
from aws.validation.rules.volumes import check_ephemeral_storage

MOST_SUBNETS, MOST_GROUPS = 16, 5
FARGATE_PROVIDERS = ("FARGATE", "FARGATE_SPOT")
_VPC_PATH = ("networkConfiguration", "awsvpcConfiguration")


def validate_launch_settings(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of the fields that CreateService and RunTask share."""
    yield from _check_launch_type(definition)
    yield from _check_network(definition)


def is_on_fargate(definition: RuleDocument) -> bool:
    """Return whether a service definition or a RunTask request uses Fargate, by launch type or provider."""
    providers = definition.get("capacityProviderStrategy") or []
    names = [name.get("capacityProvider") for name in providers]
    return definition.get("launchType") == "FARGATE" or any(name in FARGATE_PROVIDERS for name in names)


def _check_launch_type(definition: RuleDocument) -> Iterator[ShapeProblem]:
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


def _check_network(definition: RuleDocument) -> Iterator[ShapeProblem]:
    vpc = (definition.get("networkConfiguration") or {}).get("awsvpcConfiguration")
    if vpc is None:
        if definition.get("launchType") == "FARGATE":
            message = "Fargate needs networkConfiguration.awsvpcConfiguration with subnets"
            yield ShapeProblem(("networkConfiguration",), message)
        return
    subnets, groups = vpc.get("subnets") or [], vpc.get("securityGroups") or []
    if not subnets:
        yield ShapeProblem((*_VPC_PATH, "subnets"), "needs at least one subnet")
    if len(subnets) > MOST_SUBNETS:
        yield ShapeProblem(
            (*_VPC_PATH, "subnets"), f"has {len(subnets)} subnets; at most {MOST_SUBNETS} allowed"
        )
    if len(groups) > MOST_GROUPS:
        yield ShapeProblem(
            (*_VPC_PATH, "securityGroups"), f"has {len(groups)} groups; at most {MOST_GROUPS} allowed"
        )
    yield from _check_ids((*_VPC_PATH, "subnets"), subnets, "subnet-")
    yield from _check_ids((*_VPC_PATH, "securityGroups"), groups, "sg-")
    if vpc.get("assignPublicIp") == "ENABLED" and definition.get("launchType") in ("EC2", "EXTERNAL"):
        yield ShapeProblem((*_VPC_PATH, "assignPublicIp"), "public addresses are only for Fargate")


def _check_ids(path: ParameterPath, ids: list[object], prefix: str) -> Iterator[ShapeProblem]:
    for number, item in enumerate(ids):
        if is_literal(item) and not str(item).startswith(prefix):
            yield ShapeProblem(
                (*path, number), f"{quote_value(item)} is not an id; those begin with {prefix}"
            )


MOST_STRATEGIES = 5
MOST_CONSTRAINTS = 10
SERVICE_GROUP_PREFIX = "service:"


def validate_run_task(request: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of a RunTask request with valid shapes."""
    yield from check_placeholders(request)
    yield from check_tags(request.get("tags"))
    yield from validate_launch_settings(request)
    yield from check_ephemeral_storage(request.get("overrides") or {}, ("overrides",))
    count = request.get("count")
    if isinstance(count, int) and count < 1:
        yield ShapeProblem(("count",), f"is {count}; run at least one task")
    for key, maximum in (("placementStrategy", MOST_STRATEGIES), ("placementConstraints", MOST_CONSTRAINTS)):
        if len(request.get(key) or []) > maximum:
            yield ShapeProblem((key,), f"holds more than {maximum} entries")
    if str(request.get("group", "")).startswith(SERVICE_GROUP_PREFIX):
        yield ShapeProblem(
            ("group",), f"may not begin with {SERVICE_GROUP_PREFIX}, which ECS keeps for services"
        )
