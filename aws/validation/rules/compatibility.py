"""Compatibility of a service definition or RunTask request with its task definition."""

from collections.abc import Iterator
from typing import Any

from aws.validation.problems import ShapeProblem, quote_value
from aws.validation.rules.common import RuleDocument, is_literal
from aws.validation.rules.launch_settings import is_on_fargate
from aws.validation.rules.task_definitions import is_fargate
from aws.validation.rules.volumes import EFS_CONFIGURATION

# Fargate has EFS volumes since its platform 1.4.0.
PLATFORMS_WITHOUT_EFS = ("1.0.0", "1.1.0", "1.2.0", "1.3.0")


def validate_compatibility(service: RuleDocument, task_definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the contradictions between service and task definition; paths are the service's."""
    yield from _check_network(service, task_definition)
    yield from _check_launch_type(service, task_definition)
    yield from _check_ports(service, task_definition)
    if service.get("enableExecuteCommand") and not task_definition.get("taskRoleArn"):
        message = "ECS Exec needs a taskRoleArn on the task definition"
        yield ShapeProblem(("enableExecuteCommand",), message)
    volumes = {definition_volume.get("name") for definition_volume in task_definition.get("volumes") or []}
    yield from _check_overrides(service, task_definition)
    for number, volume in enumerate(service.get("volumeConfigurations") or []):
        if is_literal(volume.get("name")) and volume["name"] not in volumes:
            where = ("volumeConfigurations", number, "name")
            yield ShapeProblem(where, f"the task definition has no volume {quote_value(volume['name'])}")


def _check_overrides(request: RuleDocument, task_definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of RunTask's container overrides, by name."""
    names = [str(container.get("name")) for container in task_definition.get("containerDefinitions") or []]
    for number, override in enumerate((request.get("overrides") or {}).get("containerOverrides") or []):
        if is_literal(override.get("name")) and override["name"] not in names:
            name = quote_value(override["name"])
            message = f"the task definition has no container {name}; it has {', '.join(names)}"
            yield ShapeProblem(("overrides", "containerOverrides", number, "name"), message)


def _check_network(service: RuleDocument, task_definition: RuleDocument) -> Iterator[ShapeProblem]:
    is_awsvpc = task_definition.get("networkMode") == "awsvpc"
    if is_awsvpc and not service.get("networkConfiguration"):
        message = "the task definition's network mode awsvpc needs a networkConfiguration with subnets"
        yield ShapeProblem(("networkConfiguration",), message)
    if not is_awsvpc and service.get("networkConfiguration"):
        mode = task_definition.get("networkMode", "bridge")
        message = f"is only for the network mode awsvpc; the task definition has {mode}"
        yield ShapeProblem(("networkConfiguration",), message)


def _check_launch_type(service: RuleDocument, task_definition: RuleDocument) -> Iterator[ShapeProblem]:
    compatible = task_definition.get("requiresCompatibilities") or []
    launch_type = service.get("launchType")
    if is_on_fargate(service) and not is_fargate(task_definition):
        where = "launchType" if launch_type else "capacityProviderStrategy"
        message = (
            "the task definition is not compatible with Fargate; add requiresCompatibilities: [FARGATE] to it"
        )
        yield ShapeProblem((where,), message)
    elif launch_type and compatible and launch_type not in compatible:
        message = f"{launch_type} is not among the task definition's requiresCompatibilities"
        yield ShapeProblem(("launchType",), f"{message} ({', '.join(compatible)})")
    volumes = task_definition.get("volumes") or []
    if service.get("platformVersion") in PLATFORMS_WITHOUT_EFS and any(
        volume.get(EFS_CONFIGURATION) for volume in volumes
    ):
        message = "has no EFS volumes, which the task definition uses; use 1.4.0 or LATEST"
        yield ShapeProblem(("platformVersion",), message)


def _check_ports(service: RuleDocument, task_definition: RuleDocument) -> Iterator[ShapeProblem]:
    mapped = {
        container.get("name"): {
            mapping.get("containerPort") for mapping in container.get("portMappings") or []
        }
        for container in task_definition.get("containerDefinitions") or []
    }
    for key in ("loadBalancers", "serviceRegistries"):
        for number, target in enumerate(service.get(key) or []):
            yield from _check_port((key, number), target, mapped)


def _check_port(
    place: tuple[str | int, ...], target: RuleDocument, mapped: dict[Any, set[Any]]
) -> Iterator[ShapeProblem]:
    name, port = target.get("containerName"), target.get("containerPort")
    if not is_literal(name):
        return
    if name not in mapped:
        listed = ", ".join(map(str, mapped)) or "none"
        message = f"the task definition has no container {quote_value(name)}; it has {listed}"
        yield ShapeProblem((*place, "containerName"), message)
    elif isinstance(port, int) and port not in mapped[name]:
        message = f"the container {name} maps no port {port} in the task definition"
        yield ShapeProblem((*place, "containerPort"), message)
