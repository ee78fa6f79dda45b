"""Rules on task definitions: names, references between parts, network modes, Fargate."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from aws.validation.problems import ParameterPath, ShapeProblem, quote_value
from aws.validation.rules import containers, volumes
from aws.validation.rules.common import RuleDocument, check_name, check_placeholders, check_tags, parse_units

# Permitted memory sizes in MiB by CPU units.
FARGATE_SIZES: dict[int, tuple[int, ...]] = {
    256: (512, 1024, 2048),
    512: tuple(range(1024, 4096 + 1, 1024)),
    1024: tuple(range(2048, 8192 + 1, 1024)),
    2048: tuple(range(4096, 16384 + 1, 1024)),
    4096: tuple(range(8192, 30720 + 1, 1024)),
    8192: tuple(range(16384, 61440 + 1, 4096)),
    16384: tuple(range(32768, 122880 + 1, 8192)),
}
FARGATE_LOG_DRIVERS = ("awslogs", "splunk", "awsfirelens")
_ECR_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/")
_HOST_PARAMETERS = ("devices", "sharedMemorySize", "maxSwap", "swappiness")
MOST_STOP_SECONDS = 120


def validate_fargate(definition: RuleDocument, containers: Sequence[RuleDocument]) -> Iterator[ShapeProblem]:
    """Yield the problems of a task definition on Fargate."""
    yield from _check_size(definition)
    if definition.get("networkMode") != "awsvpc":
        path: ParameterPath = (
            ("networkMode",) if "networkMode" in definition else ("requiresCompatibilities",)
        )
        yield ShapeProblem(path, "Fargate needs networkMode: awsvpc")
    yield from _check_host_features(definition)
    yield from _check_totals(definition, containers)
    for number, container in enumerate(containers):
        container_path = ("containerDefinitions", number)
        yield from _check_container(container, container_path)
        yield from _check_execution_role(definition, container, container_path)


def _check_size(definition: RuleDocument) -> Iterator[ShapeProblem]:
    missing = [key for key in ("cpu", "memory") if not definition.get(key)]
    for key in missing:
        yield ShapeProblem((key,), f'Fargate needs "{key}" on the task definition')
    cpu, memory = parse_units(definition.get("cpu", "")), parse_units(definition.get("memory", ""))
    if missing or cpu is None or memory is None:
        return
    if cpu not in FARGATE_SIZES:
        sizes = ", ".join(map(str, FARGATE_SIZES))
        yield ShapeProblem(("cpu",), f"Fargate has no tasks with {cpu} CPU units; it has {sizes}")
    elif memory not in FARGATE_SIZES[cpu]:
        yield ShapeProblem(
            ("memory",), f"Fargate has no {memory} MiB with {cpu} CPU units; use {_format_memory_range(cpu)}"
        )


def _format_memory_range(cpu: int) -> str:
    sizes = FARGATE_SIZES[cpu]
    if len(sizes) <= 4:
        return ", ".join(map(str, sizes))
    return f"{sizes[0]} to {sizes[-1]} in steps of {sizes[1] - sizes[0]}"


def _check_host_features(definition: RuleDocument) -> Iterator[ShapeProblem]:
    for key in ("ipcMode", "inferenceAccelerators", "placementConstraints"):
        if definition.get(key):
            yield ShapeProblem((key,), "is not possible on Fargate; remove it")
    if definition.get("pidMode") not in (None, "task"):
        yield ShapeProblem(("pidMode",), "Fargate only knows pidMode: task")
    yield from volumes.validate_fargate_volumes(definition)


def _check_totals(definition: RuleDocument, containers: Sequence[RuleDocument]) -> Iterator[ShapeProblem]:
    cpu = parse_units(definition.get("cpu", ""))
    used = sum(container["cpu"] for container in containers if isinstance(container.get("cpu"), int))
    if cpu is not None and used > cpu:
        message = f"the containers ask for {used} CPU units together, the task has {cpu}"
        yield ShapeProblem(("containerDefinitions",), message)
    memory = parse_units(definition.get("memory", ""))
    reserved = sum(_get_reserved_memory(container) for container in containers)
    # A single container that is too large is reported at its own path.
    if memory is not None and reserved > memory and len(containers) > 1:
        message = f"the containers reserve {reserved} MiB together, the task has {memory}"
        yield ShapeProblem(("containerDefinitions",), message)


def _get_reserved_memory(container: RuleDocument) -> int:
    value: Any = container.get("memoryReservation") or container.get("memory")
    return value if isinstance(value, int) else 0


def _check_container(container: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    for key in ("privileged", "dockerSecurityOptions"):
        if container.get(key):
            yield ShapeProblem((*path, key), "is not possible on Fargate; remove it")
    yield from _check_linux_parameters(container.get("linuxParameters") or {}, (*path, "linuxParameters"))
    if any(requirement.get("type") == "GPU" for requirement in container.get("resourceRequirements") or []):
        yield ShapeProblem((*path, "resourceRequirements"), "Fargate has no GPUs")
    seconds = container.get("stopTimeout")
    if isinstance(seconds, int) and seconds > MOST_STOP_SECONDS:
        yield ShapeProblem(
            (*path, "stopTimeout"), f"is {seconds}; Fargate waits {MOST_STOP_SECONDS} s at most"
        )
    driver = (container.get("logConfiguration") or {}).get("logDriver")
    if driver is not None and driver not in FARGATE_LOG_DRIVERS:
        driver_path = (*path, "logConfiguration", "logDriver")
        yield ShapeProblem(
            driver_path, f"Fargate has no log driver {driver}; use {', '.join(FARGATE_LOG_DRIVERS)}"
        )


def _check_linux_parameters(parameters: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    for key in _HOST_PARAMETERS:
        if parameters.get(key):
            yield ShapeProblem((*path, key), "is not possible on Fargate; remove it")
    added = (parameters.get("capabilities") or {}).get("add") or []
    if extra := [capability for capability in added if capability != "SYS_PTRACE"]:
        message = f"Fargate can only add SYS_PTRACE, not {', '.join(map(str, extra))}"
        yield ShapeProblem((*path, "capabilities", "add"), message)


def _check_execution_role(
    definition: RuleDocument, container: RuleDocument, path: ParameterPath
) -> Iterator[ShapeProblem]:
    log = container.get("logConfiguration") or {}
    if log.get("logDriver") == "awslogs":
        if not definition.get("executionRoleArn"):
            message = "Fargate needs an executionRoleArn on the task definition for the log driver awslogs"
            yield ShapeProblem((*path, "logConfiguration"), message)
        if "awslogs-stream-prefix" not in (log.get("options") or {}):
            message = 'Fargate needs the option "awslogs-stream-prefix" for the log driver awslogs'
            yield ShapeProblem((*path, "logConfiguration"), message)
    if _ECR_IMAGE.match(str(container.get("image"))) and not definition.get("executionRoleArn"):
        message = "Fargate needs an executionRoleArn on the task definition to pull from ECR"
        yield ShapeProblem((*path, "image"), message)


MOST_CONSTRAINTS = 10


def validate_task_definition(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of a task definition with valid shapes."""
    yield from check_placeholders(definition)
    yield from check_name(("family",), definition.get("family"), "family name")
    yield from check_tags(definition.get("tags"))
    yield from volumes.validate_volumes(definition)
    yield from _check_sizes(definition)
    container_definitions = definition.get("containerDefinitions") or []
    if not container_definitions:
        yield ShapeProblem(("containerDefinitions",), "needs at least one container")
        return
    yield from containers.validate_containers(definition, container_definitions)
    if is_fargate(definition):
        yield from validate_fargate(definition, container_definitions)
    elif definition.get("ephemeralStorage"):
        yield ShapeProblem(("ephemeralStorage",), "is only for Fargate tasks", is_warning=True)


def is_fargate(definition: RuleDocument) -> bool:
    return "FARGATE" in (definition.get("requiresCompatibilities") or ())


def _check_sizes(definition: RuleDocument) -> Iterator[ShapeProblem]:
    for key in ("cpu", "memory"):
        value: Any = definition.get(key)
        if isinstance(value, str) and "<" not in value and parse_units(value) is None:
            example = '"256" or "1 vCPU"' if key == "cpu" else '"512" or "2GB"'
            yield ShapeProblem((key,), f"{quote_value(value)} is not a size; write {example}")
    if len(definition.get("placementConstraints") or []) > MOST_CONSTRAINTS:
        yield ShapeProblem(("placementConstraints",), f"holds more than {MOST_CONSTRAINTS} constraints")
