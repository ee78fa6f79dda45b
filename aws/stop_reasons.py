"""Stop reasons of ECS tasks: the failed container and the most likely cause (P02, N02)."""

import re
from dataclasses import dataclass

from aws.apis.ecs_types import EcsContainer, EcsTask


@dataclass(frozen=True)
class FailureCause:
    """A cause of failure; `fatal` means that a retry cannot succeed."""

    code: str
    message: str
    advice: str
    fatal: bool = False

    @property
    def is_network(self) -> bool:
        """Return whether the network of the task is a suspect."""
        return self.code in ("IMAGE_PULL_FAILED", "RESOURCE_INITIALIZATION")


@dataclass(frozen=True)
class _CausePattern:
    text: str
    code: str
    message: str
    advice: str
    fatal: bool = False


# ECS tries again after these, and AWS puts them behind the same words as permanent reasons.
_TRANSIENT = (
    r"i/o timeout|handshake timeout|timed out|timeout exceeded|deadline exceeded|connection re(set|fused)"
    r"|connection issue|too ?many ?requests|rate limit"
    r"|\b5\d\d (internal server error|bad gateway|service unavailable|gateway time-?out)"
)
_PATTERNS = (
    _CausePattern(
        r"not authorized to perform: ?ecr:",
        "REGISTRY_DENIED",
        "The execution role may not pull from Amazon ECR.",
        "Attach AmazonECSTaskExecutionRolePolicy to the execution role, and check the repository policy.",
        fatal=True,
    ),
    # IAM learns of a new role gradually, so that a retry can succeed.
    _CausePattern(
        r"unable to assume (the )?role",
        "ROLE_NOT_ASSUMED",
        "ECS cannot assume a role that the task definition names.",
        "Check that the role exists in this account, and that it trusts ecs-tasks.amazonaws.com.",
    ),
    _CausePattern(
        rf"CannotPull(?!.*({_TRANSIENT}))"
        r".*(not found|manifest unknown|not exist|unauthorized|forbidden|denied)",
        "IMAGE_NOT_FOUND",
        "The image of container {container} cannot be pulled: {image}.",
        "Check the image name and tag, and that the execution role may pull from this registry.",
        fatal=True,
    ),
    _CausePattern(
        r"CannotPull",
        "IMAGE_PULL_FAILED",
        "The image of container {container} could not be pulled: {image}.",
        "Check the route of the subnet to the registry (NAT, public IP, endpoint) and the registry's limits.",
    ),
    _CausePattern(
        r"exec format error",
        "WRONG_ARCHITECTURE",
        "The image of container {container} was built for another CPU architecture.",
        "Build the image for runtimePlatform.cpuArchitecture of the task definition, or change that.",
        fatal=True,
    ),
    _CausePattern(
        r"ResourceInitializationError.*(secret|parameter).*(can't find|not ?found|AccessDenied)",
        "SECRET_MISSING",
        "A secret that the task definition names cannot be read.",
        "Check valueFrom in secrets, and that the execution role may read secrets and parameters.",
        fatal=True,
    ),
    _CausePattern(
        rf"ResourceInitializationError(?!.*({_TRANSIENT})).*(log|logger)",
        "LOG_GROUP_MISSING",
        "The log group of the task cannot be used.",
        "Create the log group, or set awslogs-create-group and allow the role logs:CreateLogGroup.",
        fatal=True,
    ),
    _CausePattern(
        r"ResourceInitializationError",
        "RESOURCE_INITIALIZATION",
        "The task could not load the resources it needs to start.",
        "Read the reason in the log: usually the subnet has no route to the AWS endpoints.",
    ),
    _CausePattern(
        r"InvalidSubnetID|subnet ID '[^']{0,100}' does not exist",
        "SUBNET_MISSING",
        "A subnet of the service does not exist in this account and region.",
        "Choose subnets of one VPC in this region, and update the service.",
    ),
    _CausePattern(
        r"InvalidGroup\b|security group '[^']{0,100}' does not exist",
        "SECURITY_GROUP_MISSING",
        "A security group of the service does not exist in the VPC of its subnets.",
        "Choose security groups of that VPC, and update the service.",
    ),
    _CausePattern(
        r"InsufficientFreeAddressesInSubnet|not enough free addresses",
        "SUBNET_FULL",
        "A subnet of the service has no free IP address.",
        "Choose a subnet with free addresses, or remove what uses them.",
    ),
    _CausePattern(
        r"no container instance met all of its requirements|Capacity is unavailable",
        "NO_CAPACITY",
        "ECS found no capacity for the task.",
        "Add container instances with enough free CPU, memory and ports, or wait for Fargate capacity.",
    ),
    _CausePattern(
        r"failed ELB health checks",
        "TARGET_UNHEALTHY",
        "The load balancer found the task unhealthy.",
        "Check path and port of the health check, the security group, and healthCheckGracePeriodSeconds.",
    ),
    _CausePattern(
        r"failed container health checks",
        "CONTAINER_UNHEALTHY",
        "The health check of a container in the task failed.",
        "Run the healthCheck command inside the image. Raise startPeriod if the application starts slowly.",
    ),
    _CausePattern(
        r"SpotInterruption|TerminationNotice",
        "INTERRUPTED",
        "AWS reclaimed the capacity of the task.",
        "Run again, or run some tasks on non-Spot capacity.",
    ),
    # After the patterns for whole tasks: a container that AWS stopped may be killed as well.
    _CausePattern(
        r"OutOfMemory",
        "OUT_OF_MEMORY",
        "Container {container} was killed because it exceeded its memory limit.",
        "Raise memory in the task definition, or reduce the memory use of the application.",
    ),
)
KILLED_EXIT_CODE = 137
# Far longer than any reason of AWS; the patterns would take hours for megabytes from a delegate.
REASON_CHARACTERS = 2_000


# The image as the container runtime names it in its errors.
_IMAGE = re.compile(
    r"(?:\bref|\bimage|pull access denied for)\s+[\"']?([a-z0-9][\w.-]*(?::\d+)?/[\w./@:-]*\w)"
)


def find_cause(task: EcsTask, container: EcsContainer | None) -> FailureCause:
    """Return the most likely cause of a task's stop."""
    cause = find_reason_cause(
        _format_evidence(task),
        container=container.name if container else "?",
        image=container.image if container else "",
    )
    return cause or _find_cause_by_exit_code(container, task)


def find_reason_cause(reason: str, *, container: str, image: str = "") -> FailureCause | None:
    """Return the cause that a stop reason names, or None. Without `image`, the reason may name it."""
    reason = reason[: 4 * REASON_CHARACTERS]
    pulled = _IMAGE.search(reason)
    values = {
        "container": container,
        "image": image or (pulled[1] if pulled else "see the reason above"),
    }
    for pattern in _PATTERNS:
        if re.search(pattern.text, reason, re.IGNORECASE | re.DOTALL):
            return FailureCause(
                pattern.code, pattern.message.format(**values), pattern.advice, fatal=pattern.fatal
            )
    return None


def has_failed(task: EcsTask) -> bool:
    """Return whether a task failed; the scheduler's stops for scaling or replacement are no failures."""
    if task.stop_code in ("ServiceSchedulerInitiated", "UserInitiated"):
        return "health checks" in task.stopped_reason
    return task.last_status == "STOPPED" or bool(task.stop_code)


def _format_evidence(task: EcsTask) -> str:
    parts = [task.stop_code, task.stopped_reason, *(container.reason for container in task.containers)]
    return "\n".join(part[:REASON_CHARACTERS] for part in parts if part)


def _find_cause_by_exit_code(container: EcsContainer | None, task: EcsTask) -> FailureCause:
    if container is not None and container.exit_code == KILLED_EXIT_CODE:
        return FailureCause(
            "KILLED",
            f"Container {container.name} was killed (exit code {KILLED_EXIT_CODE}). AWS gives no reason.",
            "A likely cause: it exceeded its memory limit. Compare its memory use with the limit in the task "
            "definition; a container that does not end within its stopTimeout is killed too.",
        )
    if container is not None and container.exit_code is not None:
        return FailureCause(
            "CONTAINER_EXITED",
            f"Essential container {container.name} exited with code {container.exit_code}.",
            "Read the last lines of its log: the application exited.",
        )
    return FailureCause(
        "TASK_STOPPED",
        f"ECS task {task.id} stopped: {task.stopped_reason or 'no reason given'}.",
        "Check the task in the AWS console, and the events in the log.",
    )


def find_failed_container(task: EcsTask) -> EcsContainer | None:
    """Return the container that failed: out of memory first, then a bad exit code, then a reason."""
    for container in task.containers:
        if "OutOfMemory" in container.reason:
            return container
    for container in task.containers:
        if container.exit_code:
            return container
    for container in task.containers:
        if container.reason:
            return container
    return task.containers[0] if task.containers else None
