"""What AWS refuses in a task definition, a service or a task, and moto would let through."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.ecs import fargate
from sandbox.ecs.errors import InvalidParameter, Refused
from sandbox.ecs.records import TaskDefinition

NAME = re.compile(r"^[A-Za-z0-9_-]{1,255}$")
NETWORK_MODES = ("bridge", "host", "awsvpc", "none")
COMPATIBILITIES = ("EC2", "FARGATE", "EXTERNAL", "MANAGED_INSTANCES")
LOG_DRIVERS = ("json-file", "syslog", "journald", "gelf", "fluentd", "awslogs", "splunk", "awsfirelens")
FARGATE_LOG_DRIVERS = ("awslogs", "splunk", "awsfirelens")
LAUNCH_TYPES = ("EC2", "FARGATE", "EXTERNAL", "MANAGED_INSTANCES")
PROPAGATE_TAGS = ("TASK_DEFINITION", "SERVICE", "NONE")
ECR = re.compile(r"^\d{12}\.dkr\.ecr\.")


def check_task_definition(params: Mapping[str, Any]) -> None:
    """Raise what RegisterTaskDefinition answers for a definition that makes no sense."""
    if not NAME.match(params.get("family") or ""):
        raise Refused("Family contains invalid characters or is longer than 255.")
    containers = params.get("containerDefinitions") or []
    if not containers:
        raise Refused("Container list cannot be empty.")
    _one_of("networkMode", params.get("networkMode"), NETWORK_MODES)
    needs = params.get("requiresCompatibilities") or []
    for need in needs:
        _one_of("requiresCompatibilities", need, COMPATIBILITIES)
    _check_containers(params, containers)
    if "FARGATE" in needs:
        _check_fargate(params, containers)


def _one_of(name: str, value: str | None, allowed: Sequence[str]) -> None:
    if value is not None and value not in allowed:
        raise InvalidParameter(
            f"Invalid value '{value}' for {name}: it should be one of [{', '.join(allowed)}]."
        )


def _check_containers(params: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> None:
    names = [c.get("name") or "" for c in containers]
    volumes = {v.get("name") for v in params.get("volumes") or []}
    for container in containers:
        _check_container(container, params)
        _check_references(container, names=names, volumes=volumes)
    if len(set(names)) < len(names):
        raise Refused("Container names must be unique within a task definition.")
    if not any(c.get("essential", True) for c in containers):
        raise Refused("A task definition must have at least one essential container.")


def _check_container(container: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    for field in ("name", "image"):
        if not container.get(field):
            raise Refused(f"Container.{field} should not be null or empty.")
    name = container["name"]
    if not NAME.match(name):
        raise Refused(f"Container.name contains invalid characters: '{name}'.")
    if not (container.get("memory") or container.get("memoryReservation") or params.get("memory")):
        raise Refused(
            f"Invalid setting for container '{name}'. At least one of 'memory' or 'memoryReservation'"
            " must be specified."
        )
    if log := container.get("logConfiguration"):
        _check_log(name, log)
    if container.get("secrets") and not params.get("executionRoleArn"):
        raise Refused(
            "When you are specifying container secrets, you must also specify a value for 'executionRoleArn'."
        )
    if container.get("hostname") and (mode := _network_mode(params)) in ("awsvpc", "host"):
        raise Refused(f"hostname is not supported on container when networkMode={mode}.")
    _check_ports(container, params)


def _network_mode(params: Mapping[str, Any]) -> str:
    needs = params.get("requiresCompatibilities") or []
    return str(params.get("networkMode") or ("awsvpc" if "FARGATE" in needs else "bridge"))


def _check_log(name: str, log: Mapping[str, Any]) -> None:
    _one_of(f"logDriver of container '{name}'", log.get("logDriver"), LOG_DRIVERS)
    missing = [n for n in ("awslogs-group", "awslogs-region") if not (log.get("options") or {}).get(n)]
    if log.get("logDriver") == "awslogs" and missing:
        raise Refused(f"Log driver awslogs requires options: {', '.join(missing)}")


def _check_ports(container: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    needs_match = params.get("networkMode") == "awsvpc" or "FARGATE" in (
        params.get("requiresCompatibilities") or []
    )
    for mapping in container.get("portMappings") or []:
        host = mapping.get("hostPort") or mapping.get("containerPort")
        if needs_match and host != mapping.get("containerPort"):
            raise Refused(
                "When networkMode=awsvpc, the host ports and container ports in port mappings must match."
            )


def _check_references(container: Mapping[str, Any], *, names: Sequence[str], volumes: set[Any]) -> None:
    for dependency in container.get("dependsOn") or []:
        if dependency.get("containerName") not in names:
            raise Refused(
                f"Container '{container['name']}' depends on container '{dependency.get('containerName')}'"
                " which is not in the task definition."
            )
    for mount in container.get("mountPoints") or []:
        if mount.get("sourceVolume") not in volumes:
            raise Refused(f"Unknown volume '{mount.get('sourceVolume')}'.")


def _check_fargate(params: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> None:
    for size in ("cpu", "memory"):
        if not params.get(size):
            raise Refused(f"Fargate requires that '{size}' be defined at the task level.")
    cpu, memory = (fargate.units(str(params[size])) for size in ("cpu", "memory"))
    if cpu is None or memory is None or not fargate.is_offered(cpu, memory):
        raise Refused("No Fargate configuration exists for given values.")
    if params.get("networkMode") not in (None, "awsvpc"):
        raise Refused("Fargate only supports network mode \u2018awsvpc\u2019.")
    if params.get("pidMode") not in (None, "task"):
        raise Refused(
            f"Tasks using the Fargate launch type do not support pidMode '{params['pidMode']}'."
            " The supported value for pidMode is 'task'."
        )
    storage = (params.get("ephemeralStorage") or {}).get("sizeInGiB")
    if storage is not None and not 21 <= storage <= 200:
        raise Refused("Ephemeral storage must be between 21 GiB and 200 GiB.")
    for container in containers:
        _check_fargate_container(params, container)


def _check_fargate_container(params: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    driver = (container.get("logConfiguration") or {}).get("logDriver")
    if driver is not None:
        _one_of(f"logDriver of container '{container['name']}' on Fargate", driver, FARGATE_LOG_DRIVERS)
    if params.get("executionRoleArn"):
        return
    if driver == "awslogs":
        raise Refused(
            "Fargate requires task definition to have execution role ARN to support log driver awslogs."
        )
    if ECR.match(container["image"]):
        raise Refused("Fargate requires task definition to have execution role ARN to support ECR images.")


def check_service_name(name: str) -> None:
    if not NAME.match(name or ""):
        raise InvalidParameter(
            "Service name must be 1 to 255 letters (uppercase and lowercase), numbers, underscores, and"
            " hyphens."
        )


def check_deployment_configuration(configuration: Mapping[str, Any]) -> None:
    low, high = configuration.get("minimumHealthyPercent"), configuration.get("maximumPercent")
    if low is not None and low < 0:
        raise InvalidParameter("minimumHealthyPercent should not be negative.")
    if high is not None and high < max(low or 0, 1):
        raise InvalidParameter("maximumPercent should not be less than minimumHealthyPercent.")
    if low == high == 100:
        raise InvalidParameter(
            "Both maximumPercent and minimumHealthyPercent cannot be 100 as this will block deployments."
        )


def check_network(network: Mapping[str, Any] | None, definition: TaskDefinition) -> None:
    """Raise if a task definition and a network configuration do not go together."""
    if definition.network_mode == "awsvpc":
        if not (network or {}).get("awsvpcConfiguration"):
            raise InvalidParameter(
                "Network Configuration must be provided when networkMode 'awsvpc' is specified."
            )
    elif network:
        raise InvalidParameter(
            "Network Configuration is not valid for the given networkMode of this task definition."
        )


def check_launch_type(launch_type: str | None, definition: TaskDefinition) -> None:
    _one_of("launchType", launch_type, LAUNCH_TYPES)
    if launch_type == "FARGATE" and "FARGATE" not in definition.document["compatibilities"]:
        raise InvalidParameter("Task definition does not support launch_type FARGATE.")


def check_propagate_tags(value: str | None) -> None:
    _one_of("propagateTags", value, PROPAGATE_TAGS)


def check_overrides(overrides: Mapping[str, Any], definition: TaskDefinition) -> None:
    names = {c["name"] for c in definition.containers}
    for override in overrides.get("containerOverrides") or []:
        if override.get("name") not in names:
            raise InvalidParameter(
                f"Override for container named {override.get('name')} is not a container in the"
                " TaskDefinition."
            )
