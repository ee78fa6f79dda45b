"""Validation of task definitions, services and tasks, with the Fargate sizes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.services.ecs.errors import EcsClientException, InvalidEcsParameter
from sandbox.services.ecs.records import SandboxTaskDefinition

# CPU units -> (smallest MiB, largest MiB, step)
FARGATE_SIZES: dict[int, tuple[int, int, int]] = {
    256: (512, 2048, 512),
    512: (1024, 4096, 1024),
    1024: (2048, 8192, 1024),
    2048: (4096, 16384, 1024),
    4096: (8192, 30720, 1024),
    8192: (16384, 61440, 4096),
    16384: (32768, 122880, 8192),
}
SIZE_PATTERN = re.compile(r"^\s*(\d+(?:\.\d+)?|\.\d+)\s*(vcpu|gb)\s*$", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Return the CPU units or MiB of a task size: `1024`, `1 vCPU`, `2GB`; None for other texts."""
    if match := SIZE_PATTERN.match(text):
        return int(float(match[1]) * 1024)
    return int(text) if text.strip().isdigit() else None


def is_fargate_size(cpu: int, memory: int) -> bool:
    if cpu not in FARGATE_SIZES:
        return False
    smallest, largest, step = FARGATE_SIZES[cpu]
    # The smallest size alone also comes in half steps: 512, 1024, 2048.
    if cpu == 256:
        return memory in (512, 1024, 2048)
    return smallest <= memory <= largest and (memory - smallest) % step == 0


NAME_PATTERN = re.compile(r"^[A-Za-z0-9_-]{1,255}$")
NETWORK_MODES = ("bridge", "host", "awsvpc", "none")
COMPATIBILITIES = ("EC2", "FARGATE", "EXTERNAL", "MANAGED_INSTANCES")
LOG_DRIVERS = ("json-file", "syslog", "journald", "gelf", "fluentd", "awslogs", "splunk", "awsfirelens")
FARGATE_LOG_DRIVERS = ("awslogs", "splunk", "awsfirelens")
LAUNCH_TYPES = ("EC2", "FARGATE", "EXTERNAL", "MANAGED_INSTANCES")
PROPAGATE_TAGS = ("TASK_DEFINITION", "SERVICE", "NONE")
ECR_PATTERN = re.compile(r"^\d{12}\.dkr\.ecr\.")


def check_task_definition(params: Mapping[str, Any]) -> None:
    """Raise the error of RegisterTaskDefinition for an invalid definition."""
    if not NAME_PATTERN.match(params.get("family") or ""):
        raise EcsClientException("Family contains invalid characters or is longer than 255.")
    containers = params.get("containerDefinitions") or []
    if not containers:
        raise EcsClientException("Container list cannot be empty.")
    _validate_choice("networkMode", params.get("networkMode"), NETWORK_MODES)
    needs = params.get("requiresCompatibilities") or []
    for need in needs:
        _validate_choice("requiresCompatibilities", need, COMPATIBILITIES)
    _check_containers(params, containers)
    if "FARGATE" in needs:
        _check_fargate(params, containers)


def _validate_choice(name: str, value: str | None, allowed: Sequence[str]) -> None:
    if value is not None and value not in allowed:
        raise InvalidEcsParameter(
            f"Invalid value '{value}' for {name}: it should be one of [{', '.join(allowed)}]."
        )


def _check_containers(params: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> None:
    names = [c.get("name") or "" for c in containers]
    volumes = {v.get("name") for v in params.get("volumes") or []}
    for container in containers:
        _check_container(container, params)
        _check_references(container, names=names, volumes=volumes)
    if len(set(names)) < len(names):
        raise EcsClientException("Container names must be unique within a task definition.")
    if not any(c.get("essential", True) for c in containers):
        raise EcsClientException("A task definition must have at least one essential container.")


def _check_container(container: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    for field in ("name", "image"):
        if not container.get(field):
            raise EcsClientException(f"Container.{field} should not be null or empty.")
    name = container["name"]
    if not NAME_PATTERN.match(name):
        raise EcsClientException(f"Container.name contains invalid characters: '{name}'.")
    if not (container.get("memory") or container.get("memoryReservation") or params.get("memory")):
        raise EcsClientException(
            f"Invalid setting for container '{name}'. At least one of 'memory' or 'memoryReservation'"
            " must be specified."
        )
    if log := container.get("logConfiguration"):
        _check_log(name, log)
    if container.get("secrets") and not params.get("executionRoleArn"):
        raise EcsClientException(
            "When you are specifying container secrets, you must also specify a value for 'executionRoleArn'."
        )
    if container.get("hostname") and (mode := _get_network_mode(params)) in ("awsvpc", "host"):
        raise EcsClientException(f"hostname is not supported on container when networkMode={mode}.")
    _check_ports(container, params)


def _get_network_mode(params: Mapping[str, Any]) -> str:
    needs = params.get("requiresCompatibilities") or []
    return str(params.get("networkMode") or ("awsvpc" if "FARGATE" in needs else "bridge"))


def _check_log(name: str, log: Mapping[str, Any]) -> None:
    _validate_choice(f"logDriver of container '{name}'", log.get("logDriver"), LOG_DRIVERS)
    missing = [n for n in ("awslogs-group", "awslogs-region") if not (log.get("options") or {}).get(n)]
    if log.get("logDriver") == "awslogs" and missing:
        raise EcsClientException(f"Log driver awslogs requires options: {', '.join(missing)}")


def _check_ports(container: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    needs_match = params.get("networkMode") == "awsvpc" or "FARGATE" in (
        params.get("requiresCompatibilities") or []
    )
    for mapping in container.get("portMappings") or []:
        host = mapping.get("hostPort") or mapping.get("containerPort")
        if needs_match and host != mapping.get("containerPort"):
            raise EcsClientException(
                "When networkMode=awsvpc, the host ports and container ports in port mappings must match."
            )


def _check_references(container: Mapping[str, Any], *, names: Sequence[str], volumes: set[Any]) -> None:
    for dependency in container.get("dependsOn") or []:
        if dependency.get("containerName") not in names:
            raise EcsClientException(
                f"Container '{container['name']}' depends on container '{dependency.get('containerName')}'"
                " which is not in the task definition."
            )
    for mount in container.get("mountPoints") or []:
        if mount.get("sourceVolume") not in volumes:
            raise EcsClientException(f"Unknown volume '{mount.get('sourceVolume')}'.")


def _check_fargate(params: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> None:
    for size in ("cpu", "memory"):
        if not params.get(size):
            raise EcsClientException(f"Fargate requires that '{size}' be defined at the task level.")
    cpu, memory = (parse_size(str(params[size])) for size in ("cpu", "memory"))
    if cpu is None or memory is None or not is_fargate_size(cpu, memory):
        raise EcsClientException("No Fargate configuration exists for given values.")
    if params.get("networkMode") not in (None, "awsvpc"):
        raise EcsClientException("Fargate only supports network mode \u2018awsvpc\u2019.")
    if params.get("pidMode") not in (None, "task"):
        raise EcsClientException(
            f"Tasks using the Fargate launch type do not support pidMode '{params['pidMode']}'."
            " The supported value for pidMode is 'task'."
        )
    if not _is_storage_allowed(params):
        raise EcsClientException(_STORAGE_REFUSAL)
    for container in containers:
        _check_fargate_container(params, container)


_STORAGE_REFUSAL = "Ephemeral storage must be between 21 GiB and 200 GiB."


def _is_storage_allowed(params: Mapping[str, Any]) -> bool:
    size = (params.get("ephemeralStorage") or {}).get("sizeInGiB")
    return size is None or 21 <= size <= 200


def _check_fargate_container(params: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    driver = (container.get("logConfiguration") or {}).get("logDriver")
    if driver is not None:
        _validate_choice(
            f"logDriver of container '{container['name']}' on Fargate", driver, FARGATE_LOG_DRIVERS
        )
    if params.get("executionRoleArn"):
        return
    if driver == "awslogs":
        raise EcsClientException(
            "Fargate requires task definition to have execution role ARN to support log driver awslogs."
        )
    if ECR_PATTERN.match(container["image"]):
        raise EcsClientException(
            "Fargate requires task definition to have execution role ARN to support ECR images."
        )


def check_service_name(name: str) -> None:
    if not NAME_PATTERN.match(name or ""):
        raise InvalidEcsParameter(
            "Service name must be 1 to 255 letters (uppercase and lowercase), numbers, underscores, and"
            " hyphens."
        )


def check_deployment_configuration(configuration: Mapping[str, Any]) -> None:
    low, high = configuration.get("minimumHealthyPercent"), configuration.get("maximumPercent")
    if low is not None and low < 0:
        raise InvalidEcsParameter("minimumHealthyPercent should not be negative.")
    if high is not None and high < max(low or 0, 1):
        raise InvalidEcsParameter("maximumPercent should not be less than minimumHealthyPercent.")
    if low == high == 100:
        raise InvalidEcsParameter(
            "Both maximumPercent and minimumHealthyPercent cannot be 100 as this will block deployments."
        )


def check_network(network: Mapping[str, Any] | None, definition: SandboxTaskDefinition) -> None:
    """Check that a task definition fits a network configuration."""
    if definition.network_mode == "awsvpc":
        if not (network or {}).get("awsvpcConfiguration"):
            raise InvalidEcsParameter(
                "Network Configuration must be provided when networkMode 'awsvpc' is specified."
            )
    elif network:
        raise InvalidEcsParameter(
            "Network Configuration is not valid for the given networkMode of this task definition."
        )


def check_launch_type(launch_type: str | None, definition: SandboxTaskDefinition) -> None:
    _validate_choice("launchType", launch_type, LAUNCH_TYPES)
    if launch_type == "FARGATE" and "FARGATE" not in definition.document["compatibilities"]:
        raise InvalidEcsParameter("Task definition does not support launch_type FARGATE.")


def check_propagate_tags(value: str | None) -> None:
    _validate_choice("propagateTags", value, PROPAGATE_TAGS)


def check_overrides(overrides: Mapping[str, Any], definition: SandboxTaskDefinition) -> None:
    names = {c["name"] for c in definition.containers}
    for override in overrides.get("containerOverrides") or []:
        if override.get("name") not in names:
            raise InvalidEcsParameter(
                f"Override for container named {override.get('name')} is not a container in the"
                " TaskDefinition."
            )
    if not _is_storage_allowed(overrides):
        raise InvalidEcsParameter(_STORAGE_REFUSAL)
