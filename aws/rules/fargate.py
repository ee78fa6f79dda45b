"""What Fargate refuses: sizes it does not have, and everything that needs the host."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from aws.problems import Path, ShapeProblem
from aws.rules import volumes
from aws.rules.base import Document, units

# CPU units, and the MiB that go with them.
SIZES: dict[int, tuple[int, ...]] = {
    256: (512, 1024, 2048),
    512: tuple(range(1024, 4096 + 1, 1024)),
    1024: tuple(range(2048, 8192 + 1, 1024)),
    2048: tuple(range(4096, 16384 + 1, 1024)),
    4096: tuple(range(8192, 30720 + 1, 1024)),
    8192: tuple(range(16384, 61440 + 1, 4096)),
    16384: tuple(range(32768, 122880 + 1, 8192)),
}
LOG_DRIVERS = ("awslogs", "splunk", "awsfirelens")
_ECR_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/")
_HOST_PARAMETERS = ("devices", "sharedMemorySize", "maxSwap", "swappiness")
MOST_STOP_SECONDS = 120


def problems(definition: Document, containers: Sequence[Document]) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in a task definition for Fargate."""
    yield from _size(definition)
    if definition.get("networkMode") != "awsvpc":
        where: Path = ("networkMode",) if "networkMode" in definition else ("requiresCompatibilities",)
        yield ShapeProblem(where, "Fargate needs networkMode: awsvpc")
    yield from _of_the_host(definition)
    yield from _totals(definition, containers)
    for number, container in enumerate(containers):
        place = ("containerDefinitions", number)
        yield from _container(container, place)
        yield from _execution_role(definition, container, place)


def _size(definition: Document) -> Iterator[ShapeProblem]:
    missing = [key for key in ("cpu", "memory") if not definition.get(key)]
    for key in missing:
        yield ShapeProblem((key,), f'Fargate needs "{key}" on the task definition')
    cpu, memory = units(definition.get("cpu", "")), units(definition.get("memory", ""))
    if missing or cpu is None or memory is None:
        return
    if cpu not in SIZES:
        listed = ", ".join(map(str, SIZES))
        yield ShapeProblem(("cpu",), f"Fargate has no tasks with {cpu} CPU units; it has {listed}")
    elif memory not in SIZES[cpu]:
        yield ShapeProblem(
            ("memory",), f"Fargate has no {memory} MiB with {cpu} CPU units; use {_range(cpu)}"
        )


def _range(cpu: int) -> str:
    sizes = SIZES[cpu]
    if len(sizes) <= 4:
        return ", ".join(map(str, sizes))
    return f"{sizes[0]} to {sizes[-1]} in steps of {sizes[1] - sizes[0]}"


def _of_the_host(definition: Document) -> Iterator[ShapeProblem]:
    for key in ("ipcMode", "inferenceAccelerators", "placementConstraints"):
        if definition.get(key):
            yield ShapeProblem((key,), "is not possible on Fargate; remove it")
    if definition.get("pidMode") not in (None, "task"):
        yield ShapeProblem(("pidMode",), "Fargate only knows pidMode: task")
    yield from volumes.fargate_problems(definition)


def _totals(definition: Document, containers: Sequence[Document]) -> Iterator[ShapeProblem]:
    cpu = units(definition.get("cpu", ""))
    used = sum(one["cpu"] for one in containers if isinstance(one.get("cpu"), int))
    if cpu is not None and used > cpu:
        message = f"the containers ask for {used} CPU units together, the task has {cpu}"
        yield ShapeProblem(("containerDefinitions",), message)
    memory = units(definition.get("memory", ""))
    reserved = sum(_reserved(one) for one in containers)
    # One container alone that is too large is told at its own place.
    if memory is not None and reserved > memory and len(containers) > 1:
        message = f"the containers reserve {reserved} MiB together, the task has {memory}"
        yield ShapeProblem(("containerDefinitions",), message)


def _reserved(container: Document) -> int:
    value: Any = container.get("memoryReservation") or container.get("memory")
    return value if isinstance(value, int) else 0


def _container(container: Document, place: Path) -> Iterator[ShapeProblem]:
    for key in ("privileged", "dockerSecurityOptions"):
        if container.get(key):
            yield ShapeProblem((*place, key), "is not possible on Fargate; remove it")
    yield from _linux(container.get("linuxParameters") or {}, (*place, "linuxParameters"))
    if any(one.get("type") == "GPU" for one in container.get("resourceRequirements") or []):
        yield ShapeProblem((*place, "resourceRequirements"), "Fargate has no GPUs")
    seconds = container.get("stopTimeout")
    if isinstance(seconds, int) and seconds > MOST_STOP_SECONDS:
        yield ShapeProblem(
            (*place, "stopTimeout"), f"is {seconds}; Fargate waits {MOST_STOP_SECONDS} s at most"
        )
    driver = (container.get("logConfiguration") or {}).get("logDriver")
    if driver is not None and driver not in LOG_DRIVERS:
        where = (*place, "logConfiguration", "logDriver")
        yield ShapeProblem(where, f"Fargate has no log driver {driver}; use {', '.join(LOG_DRIVERS)}")


def _linux(parameters: Document, place: Path) -> Iterator[ShapeProblem]:
    for key in _HOST_PARAMETERS:
        if parameters.get(key):
            yield ShapeProblem((*place, key), "is not possible on Fargate; remove it")
    added = (parameters.get("capabilities") or {}).get("add") or []
    if extra := [one for one in added if one != "SYS_PTRACE"]:
        message = f"Fargate can only add SYS_PTRACE, not {', '.join(map(str, extra))}"
        yield ShapeProblem((*place, "capabilities", "add"), message)


def _execution_role(definition: Document, container: Document, place: Path) -> Iterator[ShapeProblem]:
    log = container.get("logConfiguration") or {}
    if log.get("logDriver") == "awslogs":
        if not definition.get("executionRoleArn"):
            message = "Fargate needs an executionRoleArn on the task definition for the log driver awslogs"
            yield ShapeProblem((*place, "logConfiguration"), message)
        if "awslogs-stream-prefix" not in (log.get("options") or {}):
            message = 'Fargate needs the option "awslogs-stream-prefix" for the log driver awslogs'
            yield ShapeProblem((*place, "logConfiguration"), message)
    if _ECR_IMAGE.match(str(container.get("image"))) and not definition.get("executionRoleArn"):
        message = "Fargate needs an executionRoleArn on the task definition to pull from ECR"
        yield ShapeProblem((*place, "image"), message)
