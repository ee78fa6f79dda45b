"""What the stop codes and reasons of ECS mean, in words that say what to do (AWS.md A.5)."""

import re
from dataclasses import dataclass

from aws.types import Container, EcsTask


@dataclass(frozen=True)
class Cause:
    """A cause of failure. `fatal` means that trying again cannot help."""

    code: str
    message: str
    advice: str
    fatal: bool = False


@dataclass(frozen=True)
class _Pattern:
    text: str
    code: str
    message: str
    advice: str
    fatal: bool = False


_PATTERNS = (
    _Pattern(
        r"CannotPull\w*.*(not found|manifest unknown|not exist|unauthorized|denied|failed to resolve ref)",
        "IMAGE_NOT_FOUND",
        "The image of container {container} cannot be pulled: {image}.",
        "Check the image name and tag, and that the execution role may pull from this registry.",
        fatal=True,
    ),
    _Pattern(
        r"CannotPull",
        "IMAGE_PULL_FAILED",
        "The image of container {container} could not be pulled: {image}.",
        "Check the route of the subnet to the registry (NAT, public IP, endpoint) and the registry's limits.",
    ),
    _Pattern(
        r"exec format error",
        "WRONG_ARCHITECTURE",
        "The image of container {container} was built for another processor.",
        "Build the image for runtimePlatform.cpuArchitecture of the task definition, or change that.",
        fatal=True,
    ),
    _Pattern(
        r"ResourceInitializationError.*(secret|parameter).*(can't find|not ?found|AccessDenied)",
        "SECRET_MISSING",
        "A secret that the task definition names cannot be read.",
        "Check valueFrom in secrets, and that the execution role may read secrets and parameters.",
        fatal=True,
    ),
    _Pattern(
        r"ResourceInitializationError.*(log|logger)",
        "LOG_GROUP_MISSING",
        "The log group of the task cannot be used.",
        "Create the log group, or set awslogs-create-group and allow the role logs:CreateLogGroup.",
        fatal=True,
    ),
    _Pattern(
        r"ResourceInitializationError",
        "RESOURCE_INITIALIZATION",
        "The task could not get what it needs to start.",
        "Read the reason above: most often the subnet has no route to AWS's endpoints.",
    ),
    _Pattern(
        r"failed ELB health checks",
        "TARGET_UNHEALTHY",
        "The load balancer found the task unhealthy.",
        "Check path and port of the health check, the security group, and healthCheckGracePeriodSeconds.",
    ),
    _Pattern(
        r"failed container health checks",
        "CONTAINER_UNHEALTHY",
        "The health check of a container in the task failed.",
        "Run the healthCheck command inside the image; raise startPeriod if the program starts slowly.",
    ),
    _Pattern(
        r"SpotInterruption|TerminationNotice",
        "INTERRUPTED",
        "AWS took the capacity away under the task.",
        "Run again, or keep some tasks on capacity that is not Spot.",
    ),
    # Below what AWS says of the whole task: a container that AWS stopped may be killed as well.
    _Pattern(
        r"OutOfMemory",
        "OUT_OF_MEMORY",
        "Container {container} was killed because it used more memory than it may.",
        "Raise memory in the task definition, or find out what needs that much.",
    ),
)
KILLED = 137
# AWS says less; a delegate could answer with megabytes, which the patterns would take hours for.
MOST_REASON = 2_000


def cause_of(task: EcsTask, container: Container | None) -> Cause:
    """The most likely cause for which this task stopped."""
    evidence = _evidence(task)
    words = {
        "container": container.name if container else "?",
        "image": container.image if container and container.image else "see the reason above",
    }
    for pattern in _PATTERNS:
        if re.search(pattern.text, evidence, re.IGNORECASE | re.DOTALL):
            return Cause(pattern.code, pattern.message.format(**words), pattern.advice, fatal=pattern.fatal)
    return _by_exit_code(container, task)


def _evidence(task: EcsTask) -> str:
    parts = [task.stop_code, task.stopped_reason, *(container.reason for container in task.containers)]
    return "\n".join(part[:MOST_REASON] for part in parts if part)


def _by_exit_code(container: Container | None, task: EcsTask) -> Cause:
    if container is not None and container.exit_code == KILLED:
        return Cause(
            "KILLED",
            f"Container {container.name} was killed (exit code {KILLED}), and AWS does not say why.",
            "A guess: it used more memory than it may. Compare its memory use with the limit in the task "
            "definition; a container that does not end within its stopTimeout is killed too.",
        )
    if container is not None and container.exit_code is not None:
        return Cause(
            "CONTAINER_EXITED",
            f"Essential container {container.name} exited with code {container.exit_code}.",
            "Read the last lines of its log above: the program in the image ended by itself.",
        )
    return Cause(
        "TASK_STOPPED",
        f"ECS task {task.id} stopped: {task.stopped_reason or 'no reason given'}.",
        "Look at the task in the AWS console and at the events above.",
    )
