"""Tells what will keep a delegate from starting or connecting, before anybody runs a command (N13)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from aws.ec2 import SecurityGroup, Subnet
from aws.problems import ShapeProblem
from aws.rules import together
from aws.shapes import input_shape
from aws.validation import problems
from aws.walk import misfits
from delegates.specs.documented import PLACEHOLDERS
from delegates.specs.finding import Document, Finding, Source
from delegates.specs.network import network_findings

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>[^:]*):role/\S+\Z")
_SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:(?P<region>[^:]*):(?P<account>[^:]*):secret:\S+\Z")
_ACCOUNT = re.compile(r"\d{12}\Z")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d\Z")
# Each thing that an agent has to be told, under the two names it may have (T07).
_NEEDED: Final = (
    ("HARNESS_ACCOUNT_ID", "ACCOUNT_ID"),
    ("HARNESS_TOKEN", "DELEGATE_TOKEN"),
    ("HARNESS_URL", "MANAGER_HOST_AND_PORT"),
)
_PLACEHOLDERS: Final = frozenset(
    {
        *(value for one in PLACEHOLDERS.values() for value in asdict(one).values()),
        *("PUT_YOUR_ACCOUNT_ID", "PUT_YOUR_HARNESS_URL", "<ACCOUNT_ID>", "<MANAGER_HOST_AND_PORT>", "<HOST>"),
        *("<DELEGATE_NAME>", "<LOG_STREAMING_SERVICE_URL>", "YOUR_AWS_REGION"),
    }
)
FEWEST_SUBNETS: Final = 2


def lint(
    task_definition: Document,
    service: Document | None = None,
    *,
    subnets: Sequence[Subnet] = (),
    security_groups: Sequence[SecurityGroup] = (),
) -> list[Finding]:
    """Everything that is wrong with a delegate's task definition, and with its service where there is one.

    What AWS says of its subnets and security groups is looked at too, where it was asked (T22).
    """
    found = [*_shapes("task definition", "RegisterTaskDefinition", task_definition)]
    is_shaped = _is_shaped("RegisterTaskDefinition", task_definition)
    if is_shaped:
        found += _of_task(task_definition)
    if service is not None:
        found += _shapes("service", "CreateService", service)
        if is_shaped and _is_shaped("CreateService", service):
            found += [_finding("service", one) for one in together.problems(service, task_definition)]
            found += _of_service(service)
            found += network_findings(service, subnets, security_groups)
    return list(dict.fromkeys(found))


def _shapes(source: Source, operation: str, document: Document) -> Iterator[Finding]:
    for one in problems("ecs", operation, document):
        # What a delegate is told may look like anything; `_variables` knows its documents' placeholders.
        if not (one.is_warning and "environment" in one.path):
            yield _finding(source, one)


def _is_shaped(operation: str, document: Document) -> bool:
    """Whether rules can look at a document without tripping over what is not there."""
    misfit = misfits(input_shape("ecs", operation), document)
    return not any(not one.is_warning and not one.is_unknown_key for one in misfit)


def _finding(source: Source, problem: ShapeProblem) -> Finding:
    message, _, fix = problem.message.partition("; ")
    return Finding(source, problem.place, message, fix, problem.is_warning)


def _of_task(definition: Document) -> Iterator[Finding]:
    for key in ("executionRoleArn", "taskRoleArn"):
        if definition.get(key):
            yield from _role(key, str(definition[key]))
    for number, container in enumerate(definition.get("containerDefinitions") or []):
        place = f"containerDefinitions[{number}]"
        yield from _log(container, place)
        yield from _variables(container, place)
        yield from _secrets(container, place)
    containers = definition.get("containerDefinitions") or []
    if containers and not any(map(_is_told, containers)):
        names = ", ".join(" or ".join(pair) for pair in _NEEDED)
        message = "no container is told where Slipway is and who it is"
        yield Finding("task definition", "containerDefinitions", message, f"set {names}")


def _role(key: str, arn: str) -> Iterator[Finding]:
    match = _ROLE.match(arn)
    if not match:
        yield Finding(
            "task definition", key, "is not the ARN of a role", "write it as arn:aws:iam::ACCOUNT:role/NAME"
        )
    elif not _ACCOUNT.match(match["account"]):
        message = f"{match['account'] or 'nothing'} is not an AWS account id"
        yield Finding("task definition", key, message, "put the 12 digits of your account there")


def _log(container: Document, place: str) -> Iterator[Finding]:
    log = container.get("logConfiguration") or {}
    if log.get("logDriver") != "awslogs":
        return
    options = log.get("options") or {}
    region, where = options.get("awslogs-region"), f"{place}.logConfiguration.options"
    if region and not _REGION.match(region):
        yield Finding(
            "task definition",
            f"{where}.awslogs-region",
            f"{region} is not a region",
            "name the one of the cluster",
        )
    if "awslogs-group" in options and not options["awslogs-group"]:
        message = "the log group has no name"
        yield Finding("task definition", f"{where}.awslogs-group", message, "name one such as /ecs/delegate")


def _told(container: Document) -> dict[str, str]:
    """The variables of a container; what comes from a secret is known by where it comes from."""
    plain = {one.get("name", ""): one.get("value", "") for one in container.get("environment") or []}
    return plain | {one.get("name", ""): one.get("valueFrom", "") for one in container.get("secrets") or []}


def _is_told(container: Document) -> bool:
    told = _told(container)
    return all(any(told.get(name) for name in pair) for pair in _NEEDED)


def _variables(container: Document, place: str) -> Iterator[Finding]:
    for number, one in enumerate(container.get("environment") or []):
        if one.get("value") in _PLACEHOLDERS:
            where = f"{place}.environment[{number}]"
            message = f"{one.get('name')} still holds the placeholder {one['value']}"
            yield Finding("task definition", where, message, "put the real value there")


def _secrets(container: Document, place: str) -> Iterator[Finding]:
    plain = {one.get("name") for one in container.get("environment") or []}
    options = (container.get("logConfiguration") or {}).get("options") or {}
    for number, one in enumerate(container.get("secrets") or []):
        where = f"{place}.secrets[{number}]"
        if one.get("name") in plain:
            message = f"{one.get('name')} is a plain variable too"
            yield Finding("task definition", where, message, "remove it from environment")
        match = _SECRET.match(str(one.get("valueFrom")))
        if match and not _ACCOUNT.match(match["account"]):
            message = f"{match['account'] or 'nothing'} is not an AWS account id"
            yield Finding("task definition", f"{where}.valueFrom", message, "put the 12 digits there")
        region = options.get("awslogs-region")
        if match and region and match["region"] != region:
            message = f"the secret is in {match['region']}, the log in {region}"
            yield Finding("task definition", f"{where}.valueFrom", message, "use one region for both", True)


def _of_service(service: Document) -> Iterator[Finding]:
    if service.get("desiredCount") == 0:
        message = "no task is wanted, so no delegate will start"
        yield Finding("service", "desiredCount", message, "use 1 or more", True)
    vpc = (service.get("networkConfiguration") or {}).get("awsvpcConfiguration")
    if vpc is None:
        return
    place = "networkConfiguration.awsvpcConfiguration"
    subnets = vpc.get("subnets") or []
    if 0 < len(subnets) < FEWEST_SUBNETS:
        message = "there is one subnet, so one availability zone"
        yield Finding("service", f"{place}.subnets", message, "name two in different zones", True)
    if service.get("launchType") == "FARGATE" and "assignPublicIp" not in vpc:
        message = "nothing is said, which AWS takes for DISABLED"
        yield Finding("service", f"{place}.assignPublicIp", message, "say ENABLED or DISABLED", True)
