"""Linter of task definitions, services and their network (N13, T22, R093)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from aws.apis.ec2 import SecurityGroup, Subnet
from aws.shapes import get_input_shape
from aws.validation.parameters import validate_parameters
from aws.validation.problems import ShapeProblem
from aws.validation.rules import compatibility
from aws.validation.shape_checks import find_shape_problems
from delegates.install.addresses import find_address_problem
from delegates.install.images import parse_image
from delegates.install.plan import PLACEHOLDERS

Document = Mapping[str, Any]
Source = Literal["task definition", "service"]


@dataclass(frozen=True)
class SpecFinding:
    """Problem in a document with position and remedy; a warning does not prevent a delegate's start."""

    document: Source
    place: str
    message: str
    fix: str = ""
    is_warning: bool = False

    def as_record(self) -> dict[str, Any]:
        return {
            "document": self.document,
            "place": self.place,
            "message": self.message,
            "fix": self.fix,
            "is_warning": self.is_warning,
        }


NETWORK_PATH = "networkConfiguration.awsvpcConfiguration"
HTTPS_PORT = 443


def lint_network(
    service: Document, subnets: Sequence[Subnet], groups: Sequence[SecurityGroup]
) -> Iterator[SpecFinding]:
    """Return the problems that block network access; resources that AWS did not describe give none."""
    vpc = (service.get("networkConfiguration") or {}).get("awsvpcConfiguration") or {}
    by_id = {row.id: row for row in subnets}
    named = [
        (number, by_id[subnet_id])
        for number, subnet_id in enumerate(vpc.get("subnets") or [])
        if subnet_id in by_id
    ]
    has_address = vpc.get("assignPublicIp") == "ENABLED"
    for number, subnet in named:
        yield from _lint_route(subnet, f"{NETWORK_PATH}.subnets[{number}]", has_address=has_address)
    zones = {subnet.zone for _, subnet in named}
    if len(named) > 1 and len(zones) == 1:
        message = f"all subnets are in {zones.pop()}"
        yield SpecFinding("service", f"{NETWORK_PATH}.subnets", message, "use a subnet in another zone", True)
    vpcs = sorted({subnet.vpc for _, subnet in named})
    if len(vpcs) > 1:
        message = f"the subnets are of several VPCs: {', '.join(vpcs)}"
        yield SpecFinding("service", f"{NETWORK_PATH}.subnets", message, "use subnets of one VPC")
    yield from _lint_groups(vpc, groups, vpcs)


def _lint_route(subnet: Subnet, place: str, *, has_address: bool) -> Iterator[SpecFinding]:
    """Return the rule that fails silently: an address without a gateway, or a gateway without an address."""
    if not subnet.egress_route:
        message = f"{subnet.id} has no route to other networks"
        fix = "give it a route to an internet gateway or a NAT gateway"
        yield SpecFinding("service", place, message, fix)
    elif subnet.egress_route == "internet" and not has_address:
        message = f"{subnet.id} is public, and tasks without a public IP cannot reach the internet through it"
        yield SpecFinding("service", place, message, "set assignPublicIp to ENABLED, or use private subnets")
    elif subnet.egress_route == "nat" and has_address:
        message = f"{subnet.id} is private: a public IP has no effect in it"
        yield SpecFinding("service", place, message, "set assignPublicIp to DISABLED", True)


def _lint_groups(
    vpc: Document, groups: Sequence[SecurityGroup], vpcs: Sequence[str]
) -> Iterator[SpecFinding]:
    by_id = {row.id: row for row in groups}
    named = [
        (number, by_id[group_id])
        for number, group_id in enumerate(vpc.get("securityGroups") or [])
        if group_id in by_id
    ]
    for number, group in named:
        if vpcs and group.vpc not in vpcs:
            message = f"{group.id} is of {group.vpc}, the subnets are of {vpcs[0]}"
            yield SpecFinding(
                "service", f"{NETWORK_PATH}.securityGroups[{number}]", message, "name a group of that VPC"
            )
    if named and not any(group.allows_egress(HTTPS_PORT) for _, group in named):
        message = "no security group allows outbound HTTPS to all destinations"
        fix = "allow outbound port 443, at least to Slipway, AWS and your registries"
        yield SpecFinding("service", f"{NETWORK_PATH}.securityGroups", message, fix, True)


_ROLE = re.compile(r"arn:aws[a-z-]*:iam::(?P<account>[^:]*):role/\S+\Z")
_SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:(?P<region>[^:]*):(?P<account>[^:]*):secret:\S+\Z")
_ACCOUNT = re.compile(r"\d{12}\Z")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d\Z")
# Required settings of an agent, under both of their names (T07).
_REQUIRED_VARIABLES: Final = (
    ("HARNESS_ACCOUNT_ID", "ACCOUNT_ID"),
    ("HARNESS_TOKEN", "DELEGATE_TOKEN"),
    ("HARNESS_URL", "MANAGER_HOST_AND_PORT"),
)
_ADDRESS_VARIABLES: Final = _REQUIRED_VARIABLES[2]
_PLACEHOLDERS: Final = frozenset(
    {
        *(value for placeholders in PLACEHOLDERS.values() for value in asdict(placeholders).values()),
        *("PUT_YOUR_ACCOUNT_ID", "PUT_YOUR_HARNESS_URL", "<ACCOUNT_ID>", "<MANAGER_HOST_AND_PORT>", "<HOST>"),
        *("<DELEGATE_NAME>", "<LOG_STREAMING_SERVICE_URL>", "YOUR_AWS_REGION"),
    }
)
MIN_SUBNETS: Final = 2


def lint_spec(
    task_definition: Document,
    service: Document | None = None,
    *,
    subnets: Sequence[Subnet] = (),
    security_groups: Sequence[SecurityGroup] = (),
) -> list[SpecFinding]:
    """Return all problems of a delegate's task definition and, if present, its service.

    Subnets and security groups are checked too if AWS described them (T22).
    """
    findings = [*_lint_shapes("task definition", "RegisterTaskDefinition", task_definition)]
    is_shaped = _has_shape("RegisterTaskDefinition", task_definition)
    if is_shaped:
        findings += _lint_task_definition(task_definition)
    if service is not None:
        findings += _lint_shapes("service", "CreateService", service)
        if is_shaped and _has_shape("CreateService", service):
            findings += [
                _build_finding("service", problem)
                for problem in compatibility.validate_compatibility(service, task_definition)
            ]
            findings += _lint_service(service)
            findings += lint_network(service, subnets, security_groups)
    return list(dict.fromkeys(findings))


def _lint_shapes(source: Source, operation: str, document: Document) -> Iterator[SpecFinding]:
    for problem in validate_parameters("ecs", operation, document):
        # Values may have any format; `_lint_variables` knows the placeholders of the documents.
        if not (problem.is_warning and "environment" in problem.path):
            yield _build_finding(source, problem)


def _has_shape(operation: str, document: Document) -> bool:
    """Return whether a document has the shape that the rules expect."""
    misfit = find_shape_problems(get_input_shape("ecs", operation), document)
    return not any(not problem.is_warning and not problem.is_unknown_key for problem in misfit)


def _build_finding(source: Source, problem: ShapeProblem) -> SpecFinding:
    message, _, fix = problem.message.partition("; ")
    return SpecFinding(source, problem.location, message, fix, problem.is_warning)


def _lint_task_definition(definition: Document) -> Iterator[SpecFinding]:
    for key in ("executionRoleArn", "taskRoleArn"):
        if definition.get(key):
            yield from _lint_role(key, str(definition[key]))
    for number, container in enumerate(definition.get("containerDefinitions") or []):
        place = f"containerDefinitions[{number}]"
        yield from _lint_log(container, place)
        yield from _lint_variables(container, place)
        yield from _lint_secrets(container, place)
        if _is_agent_container(container):
            yield from _lint_image(container, place)
            yield from _lint_address(container, place)
    containers = definition.get("containerDefinitions") or []
    if containers and not any(map(_is_agent_container, containers)):
        names = ", ".join(" or ".join(pair) for pair in _REQUIRED_VARIABLES)
        message = "no container has the delegate variables"
        yield SpecFinding("task definition", "containerDefinitions", message, f"set {names}")


def _lint_role(key: str, arn: str) -> Iterator[SpecFinding]:
    match = _ROLE.match(arn)
    if not match:
        yield SpecFinding(
            "task definition", key, "is not the ARN of a role", "write it as arn:aws:iam::ACCOUNT:role/NAME"
        )
    elif not _ACCOUNT.match(match["account"]):
        message = f"{match['account'] or 'nothing'} is not an AWS account id"
        yield SpecFinding("task definition", key, message, "enter the 12 digits of your account")


def _lint_log(container: Document, place: str) -> Iterator[SpecFinding]:
    log = container.get("logConfiguration") or {}
    if log.get("logDriver") != "awslogs":
        return
    options = log.get("options") or {}
    region, where = options.get("awslogs-region"), f"{place}.logConfiguration.options"
    if region and not _REGION.match(region):
        yield SpecFinding(
            "task definition",
            f"{where}.awslogs-region",
            f"{region} is not a region",
            "use the region of the cluster",
        )
    if "awslogs-group" in options and not options["awslogs-group"]:
        message = "the log group has no name"
        yield SpecFinding(
            "task definition", f"{where}.awslogs-group", message, "use a name such as /ecs/delegate"
        )


def _read_variables(container: Document) -> dict[str, str]:
    """Return the variables of a container; those from secrets are known by their source."""
    plain = {
        variable.get("name", ""): variable.get("value", "") for variable in container.get("environment") or []
    }
    return plain | {
        secret.get("name", ""): secret.get("valueFrom", "") for secret in container.get("secrets") or []
    }


def _is_agent_container(container: Document) -> bool:
    variables = _read_variables(container)
    return all(any(variables.get(name) for name in pair) for pair in _REQUIRED_VARIABLES)


def _lint_variables(container: Document, place: str) -> Iterator[SpecFinding]:
    for number, variable in enumerate(container.get("environment") or []):
        if variable.get("value") in _PLACEHOLDERS:
            where = f"{place}.environment[{number}]"
            message = f"{variable.get('name')} still holds the placeholder {variable['value']}"
            yield SpecFinding("task definition", where, message, "enter the real value")


def _lint_secrets(container: Document, place: str) -> Iterator[SpecFinding]:
    plain = {variable.get("name") for variable in container.get("environment") or []}
    options = (container.get("logConfiguration") or {}).get("options") or {}
    for number, secret in enumerate(container.get("secrets") or []):
        where = f"{place}.secrets[{number}]"
        if secret.get("name") in plain:
            message = f"{secret.get('name')} is a plain variable too"
            yield SpecFinding("task definition", where, message, "remove it from environment")
        match = _SECRET.match(str(secret.get("valueFrom")))
        if match and not _ACCOUNT.match(match["account"]):
            message = f"{match['account'] or 'nothing'} is not an AWS account id"
            yield SpecFinding("task definition", f"{where}.valueFrom", message, "enter the 12 digits")
        region = options.get("awslogs-region")
        if match and region and match["region"] != region:
            message = f"the secret is in {match['region']}, the log in {region}"
            yield SpecFinding(
                "task definition", f"{where}.valueFrom", message, "use one region for both", True
            )


def _lint_image(container: Document, place: str) -> Iterator[SpecFinding]:
    reference = str(container.get("image") or "")
    image = parse_image(reference)
    if image.is_local:
        message = f"{reference} has no registry, so that no task can pull it"
        fix = "push it to a registry such as Amazon ECR, and name it there"
        yield SpecFinding("task definition", f"{place}.image", message, fix, True)
    if image.is_mutable:
        message = f"{reference} names no version: a restart may start another release"
        yield SpecFinding(
            "task definition", f"{place}.image", message, "use a tag with a version, or a digest", True
        )


def _lint_address(container: Document, place: str) -> Iterator[SpecFinding]:
    for number, variable in enumerate(container.get("environment") or []):
        if variable.get("name") not in _ADDRESS_VARIABLES or variable.get("value") in _PLACEHOLDERS:
            continue
        reason, fix = find_address_problem(str(variable.get("value")))
        if reason:
            where, message = f"{place}.environment[{number}]", f"{variable['value']} {reason}"
            yield SpecFinding("task definition", where, message, fix, True)


def _lint_service(service: Document) -> Iterator[SpecFinding]:
    if service.get("desiredCount") == 0:
        message = "the desired count is 0, so no delegate will start"
        yield SpecFinding("service", "desiredCount", message, "use 1 or more", True)
    vpc = (service.get("networkConfiguration") or {}).get("awsvpcConfiguration")
    if vpc is None:
        return
    place = "networkConfiguration.awsvpcConfiguration"
    subnets = vpc.get("subnets") or []
    if 0 < len(subnets) < MIN_SUBNETS:
        message = "there is one subnet, so one Availability Zone"
        yield SpecFinding("service", f"{place}.subnets", message, "use two in different zones", True)
    if service.get("launchType") == "FARGATE" and "assignPublicIp" not in vpc:
        message = "not set, which AWS treats as DISABLED"
        yield SpecFinding("service", f"{place}.assignPublicIp", message, "set ENABLED or DISABLED", True)
