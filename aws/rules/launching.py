"""Where tasks start: what ECS refuses in launch type, capacity providers and network of a request."""

from collections.abc import Iterator

from aws.problems import Path, ShapeProblem, shown
from aws.rules.base import Document, is_settled

MOST_SUBNETS, MOST_GROUPS = 16, 5
FARGATE_PROVIDERS = ("FARGATE", "FARGATE_SPOT")
_VPC = ("networkConfiguration", "awsvpcConfiguration")


def problems(definition: Document) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in the places that CreateService and RunTask share."""
    yield from _launch(definition)
    yield from _network(definition)


def is_on_fargate(definition: Document) -> bool:
    """Whether a service definition or a RunTask request asks for Fargate, by launch type or provider."""
    providers = definition.get("capacityProviderStrategy") or []
    named = [one.get("capacityProvider") for one in providers]
    return definition.get("launchType") == "FARGATE" or any(one in FARGATE_PROVIDERS for one in named)


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
