"""The life of a task, from PROVISIONING to STOPPED."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.ecs import containers, output, secret_values, targets
from sandbox.ecs.records import Task
from sandbox.images import BEHAVIORS, RUNS, Behavior, digest_of
from sandbox.images import behavior_of as image_behavior

if TYPE_CHECKING:
    from sandbox.ecs.backend import SandboxEcs

GRACEFUL_STOP = 2.0
DEPROVISIONING = 5.0
UNCHECKED_SECONDS = 40.0
NEVER = float("inf")
FAILED_TO_START = "TaskFailedToStart"
EXITED = "EssentialContainerExited"
BY_SCHEDULER = "ServiceSchedulerInitiated"
BY_USER = "UserInitiated"
INTERRUPTED = "SpotInterruption"


def behavior_of(task: Task) -> Behavior:
    return BEHAVIORS.get(task.behavior, RUNS)


def advance(backend: "SandboxEcs", task: Task) -> bool:
    """Move a task through every state whose time has come; True if it changed."""
    if CLOCK.elapsed < task.look_at:
        return False
    changed = False
    while task.last_status != "STOPPED" and CLOCK.elapsed >= task.next_at:
        STATES[task.last_status](backend, task)
        changed = True
    if task.is_running and task.is_live:
        changed |= output.print_lines(
            backend.account_id, backend.region_name, task, _definitions(backend, task)
        )
        changed |= _check_health(backend, task)
    task.look_at = _next_look(backend, task)
    return changed


def _next_look(backend: "SandboxEcs", task: Task) -> float:
    """When something can next happen to a task by itself."""
    if not (task.is_running and task.is_live):
        return task.next_at
    definitions = _definitions(backend, task)
    verdict = "HEALTHY" if behavior_of(task).healthy else "UNHEALTHY"
    if task.health_status != verdict and any(d.get("healthCheck") for d in definitions):
        return CLOCK.elapsed
    return min(task.next_at, output.next_line_at(task, definitions))


def _definitions(backend: "SandboxEcs", task: Task) -> list[dict[str, Any]]:
    return backend.definition_of(task).containers


def _enter(task: Task, status: str, seconds: float) -> None:
    task.last_status = status
    task.next_at = CLOCK.elapsed + seconds
    task.look_at = 0.0
    task.version += 1


def _provisioned(_: "SandboxEcs", task: Task) -> None:
    task.pull_started_at = CLOCK.now()
    for attachment in task.attachments:
        attachment["status"] = "ATTACHED"
    _enter(task, "PENDING", behavior_of(task).pulling)


def _pulled(backend: "SandboxEcs", task: Task) -> None:
    definitions = _definitions(backend, task)
    if not behavior_of(task).pullable:
        reason = _cannot_pull(definitions)
    else:
        reason = _cannot_prepare(backend, task, definitions)
    if reason:
        _fail_to_start(backend, task, reason)
        return
    task.pull_stopped_at = CLOCK.now()
    task.connectivity, task.connectivity_at = "CONNECTED", CLOCK.now()
    _enter(task, "ACTIVATING", behavior_of(task).activating)


def _cannot_prepare(backend: "SandboxEcs", task: Task, definitions: list[dict[str, Any]]) -> str:
    where = (backend.account_id, backend.region_name)
    return (
        secret_values.missing_secret(*where, definitions)
        or output.open_streams(*where, task, definitions)
        or ""
    )


def _fail_to_start(backend: "SandboxEcs", task: Task, reason: str) -> None:
    for container in task.containers:
        container["reason"] = reason
    stop(backend, task, code=FAILED_TO_START, reason=reason)


def _cannot_pull(definitions: list[dict[str, Any]]) -> str:
    image = next(d["image"] for d in definitions if not image_behavior(d["image"]).pullable)
    host = image.partition("/")[0]
    if "/" not in image:
        image = f"docker.io/library/{image}"
    elif "." not in host and ":" not in host:
        image = f"docker.io/{image}"
    return (
        "CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref"
        f" {image}: {image}: not found"
    )


def _activated(backend: "SandboxEcs", task: Task) -> None:
    if reason := containers.start(backend, task):
        _fail_to_start(backend, task, reason)
        return
    task.started_at = CLOCK.now()
    task.running_since = CLOCK.elapsed
    for container in task.containers:
        container["lastStatus"] = "RUNNING"
        container["imageDigest"] = digest_of(container["image"])
    targets.register(backend, task)
    exits_after = behavior_of(task).exits_after
    judged_by_health = not behavior_of(task).healthy and is_checked(backend, task)
    ends_after = None if judged_by_health else exits_after
    ends = [seconds for seconds in (ends_after, behavior_of(task).interrupted_after) if seconds is not None]
    _enter(task, "RUNNING", min(ends, default=NEVER))


def _exited(backend: "SandboxEcs", task: Task) -> None:
    output.print_lines(backend.account_id, backend.region_name, task, _definitions(backend, task))
    behavior = behavior_of(task)
    if behavior.interrupted_after is not None:
        stop(backend, task, code=INTERRUPTED, reason="Your Spot Task was interrupted.")
        return
    age = behavior.exits_after or 0
    # What has not ended by itself is stopped with the task, and ends well.
    ends = {d["name"]: image_behavior(d["image"]) for d in _definitions(backend, task)}
    for container in task.containers:
        own = ends.get(container["name"], RUNS)
        has_ended = own.exits_after is not None and own.exits_after <= age
        container["exitCode"] = own.exit_code if has_ended else 0
        if has_ended and own.exit_reason:
            container["reason"] = own.exit_reason
    task.execution_stopped_at = CLOCK.now()
    stop(backend, task, code=EXITED, reason="Essential container in task exited")


def _deactivated(backend: "SandboxEcs", task: Task) -> None:
    # A real process ends in its own time; whoever watches it then lets the task go on.
    _enter(task, "STOPPING", NEVER if containers.terminate(backend, task) else GRACEFUL_STOP)


def _stopped_containers(task: Task) -> None:
    for container in task.containers:
        container["lastStatus"] = "STOPPED"
        if task.started_at is not None:
            container.setdefault("exitCode", image_behavior(container["image"]).stopped_code)


def _killed(_: "SandboxEcs", task: Task) -> None:
    task.execution_stopped_at = task.execution_stopped_at or CLOCK.now()
    _stopped_containers(task)
    _enter(task, "DEPROVISIONING", DEPROVISIONING)


def _deprovisioned(backend: "SandboxEcs", task: Task) -> None:
    backend.index.free_address(task)
    task.stopped_at = CLOCK.now()
    task.stopped_since = CLOCK.elapsed
    for attachment in task.attachments:
        attachment["status"] = "DELETED"
    _enter(task, "STOPPED", NEVER)


STATES: dict[str, Callable[["SandboxEcs", Task], None]] = {
    "PROVISIONING": _provisioned,
    "PENDING": _pulled,
    "ACTIVATING": _activated,
    "RUNNING": _exited,
    "DEACTIVATING": _deactivated,
    "STOPPING": _killed,
    "DEPROVISIONING": _deprovisioned,
}


def stop(backend: "SandboxEcs", task: Task, *, code: str, reason: str) -> None:
    """Begin to stop a task, whatever it is doing; a task already stopping goes on as it was."""
    if not task.is_live:
        return
    task.desired_status = "STOPPED"
    task.stop_code, task.stopped_reason = code, reason
    task.stopping_at = CLOCK.now()
    if service := backend.service_of(task):
        service.look_at = 0.0
    draining = targets.deregister(backend, task)
    if task.is_running and code != EXITED:
        _enter(task, "DEACTIVATING", draining)
        return
    _stopped_containers(task)
    _enter(task, "DEPROVISIONING", DEPROVISIONING)


def _check_health(backend: "SandboxEcs", task: Task) -> bool:
    """Run the container health checks of a task; True if its health changed."""
    checks = [d["healthCheck"] for d in _definitions(backend, task) if d.get("healthCheck")]
    if not checks or task.running_since is None:
        return False
    age = CLOCK.elapsed - task.running_since
    slowest = max(float(c.get("interval", 30)) for c in checks)
    failing = max(c.get("startPeriod", 0) + c.get("interval", 30) * c.get("retries", 3) for c in checks)
    healthy = behavior_of(task).healthy
    status = "HEALTHY" if healthy and age >= slowest else task.health_status
    if not healthy and age >= failing:
        status = "UNHEALTHY"
    if status == task.health_status:
        return False
    task.health_status = status
    task.version += 1
    checked = {d["name"] for d in _definitions(backend, task) if d.get("healthCheck")}
    for container in task.containers:
        if container["name"] in checked:
            container["healthStatus"] = status
    return True


def is_checked(backend: "SandboxEcs", task: Task) -> bool:
    """Whether a target group or a container health check says how a task is."""
    return bool(task.targets) or any(d.get("healthCheck") for d in _definitions(backend, task))


def is_healthy(backend: "SandboxEcs", task: Task) -> bool:
    """Whether a task counts as healthy for its service.

    With target groups: healthy there; with container health checks: HEALTHY; with neither: RUNNING for forty
    seconds, as the service scheduler waits before it counts such a task.
    """
    if not (task.is_live and task.is_running) or task.running_since is None:
        return False
    has_check = any(d.get("healthCheck") for d in _definitions(backend, task))
    if has_check and task.health_status != "HEALTHY":
        return False
    if task.targets and not targets.are_healthy(backend, task):
        return False
    return is_checked(backend, task) or CLOCK.elapsed - task.running_since >= UNCHECKED_SECONDS
