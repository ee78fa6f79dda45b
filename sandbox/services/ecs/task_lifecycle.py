"""Lifecycle of an ECS task from PROVISIONING to STOPPED, with the exits of its local processes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.images import (
    BEHAVIORS,
    DEFAULT_BEHAVIOR,
    ImageBehavior,
    get_behavior,
    get_container_behavior,
    get_digest,
)
from sandbox.programs import CONTAINER_PROCESSES, ContainerProcess
from sandbox.services.ecs import targets
from sandbox.services.ecs.records import SandboxTask
from sandbox.services.ecs.task_containers import logs, processes, secret_values

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

GRACEFUL_STOP_SECONDS = 2.0
DEPROVISIONING_SECONDS = 5.0
UNCHECKED_SECONDS = 40.0
NEVER = float("inf")
FINAL_STATUSES = ("DEPROVISIONING", "STOPPED")
FAILED_TO_START = "TaskFailedToStart"
EXITED = "EssentialContainerExited"
BY_SCHEDULER = "ServiceSchedulerInitiated"
BY_USER = "UserInitiated"
INTERRUPTED = "SpotInterruption"


def get_task_behavior(task: SandboxTask) -> ImageBehavior:
    return BEHAVIORS.get(task.behavior, DEFAULT_BEHAVIOR)


def advance_task(backend: "SandboxEcs", task: SandboxTask) -> bool:
    """Move a task through all due states, and return whether it changed."""
    if CLOCK.elapsed < task.due_at:
        return False
    changed = False
    while task.last_status != "STOPPED" and CLOCK.elapsed >= task.next_at:
        STATE_TRANSITIONS[task.last_status](backend, task)
        changed = True
    if task.is_running and task.is_live:
        changed |= logs.write_due_lines(
            backend.account_id, backend.region_name, task, _list_container_definitions(backend, task)
        )
        changed |= _check_health(backend, task)
    task.due_at = _get_next_check(backend, task)
    return changed


def _get_next_check(backend: "SandboxEcs", task: SandboxTask) -> float:
    """Return the time of the task's next automatic change."""
    if not (task.is_running and task.is_live):
        return task.next_at
    definitions = _list_container_definitions(backend, task)
    verdict = "HEALTHY" if get_task_behavior(task).healthy else "UNHEALTHY"
    if task.health_status != verdict and any(d.get("healthCheck") for d in definitions):
        return CLOCK.elapsed
    return min(task.next_at, logs.get_next_line_time(task, definitions))


def _list_container_definitions(backend: "SandboxEcs", task: SandboxTask) -> list[dict[str, Any]]:
    return backend.definition_of(task).containers


def _enter_state(task: SandboxTask, status: str, seconds: float) -> None:
    task.last_status = status
    task.next_at = CLOCK.elapsed + seconds
    task.due_at = 0.0
    task.version += 1


def _finish_provisioning(_: "SandboxEcs", task: SandboxTask) -> None:
    task.pull_started_at = CLOCK.now()
    for attachment in task.attachments:
        attachment["status"] = "ATTACHED"
    _enter_state(task, "PENDING", get_task_behavior(task).pulling)


def _finish_pulling(backend: "SandboxEcs", task: SandboxTask) -> None:
    definitions = _list_container_definitions(backend, task)
    if not get_task_behavior(task).pullable:
        reason = _describe_pull_failure(definitions)
    else:
        reason = _describe_start_failure(backend, task, definitions)
    if reason:
        _fail_to_start(backend, task, reason)
        return
    task.pull_stopped_at = CLOCK.now()
    task.connectivity, task.connectivity_at = "CONNECTED", CLOCK.now()
    _enter_state(task, "ACTIVATING", get_task_behavior(task).activating)


def _describe_start_failure(
    backend: "SandboxEcs", task: SandboxTask, definitions: list[dict[str, Any]]
) -> str:
    where = (backend.account_id, backend.region_name)
    return (
        secret_values.describe_missing_secret(*where, definitions)
        or logs.create_streams(*where, task, definitions)
        or ""
    )


def _fail_to_start(backend: "SandboxEcs", task: SandboxTask, reason: str) -> None:
    for container in task.containers:
        container["reason"] = reason
    stop_task(backend, task, code=FAILED_TO_START, reason=reason)


def _describe_pull_failure(definitions: list[dict[str, Any]]) -> str:
    image = next(d["image"] for d in definitions if not get_behavior(d["image"]).pullable)
    host = image.partition("/")[0]
    if "/" not in image:
        image = f"docker.io/library/{image}"
    elif "." not in host and ":" not in host:
        image = f"docker.io/{image}"
    return (
        "CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref"
        f" {image}: {image}: not found"
    )


def _finish_activating(backend: "SandboxEcs", task: SandboxTask) -> None:
    if reason := processes.start_containers(backend, task):
        _fail_to_start(backend, task, reason)
        return
    task.started_at = CLOCK.now()
    task.running_since = CLOCK.elapsed
    for container in task.containers:
        container["lastStatus"] = "RUNNING"
        container["imageDigest"] = get_digest(container["image"])
    targets.register_task_targets(backend, task)
    exits_after = get_task_behavior(task).exits_after
    judged_by_health = not get_task_behavior(task).healthy and has_health_check(backend, task)
    ends_after = None if judged_by_health else exits_after
    ends = [
        seconds for seconds in (ends_after, get_task_behavior(task).interrupted_after) if seconds is not None
    ]
    _enter_state(task, "RUNNING", min(ends, default=NEVER))


def _finish_running(backend: "SandboxEcs", task: SandboxTask) -> None:
    logs.write_due_lines(
        backend.account_id, backend.region_name, task, _list_container_definitions(backend, task)
    )
    behavior = get_task_behavior(task)
    if behavior.interrupted_after is not None:
        stop_task(backend, task, code=INTERRUPTED, reason="Your Spot Task was interrupted.")
        return
    age = behavior.exits_after or 0
    # Containers that still run are stopped with the task, and exit successfully.
    ends = {d["name"]: get_container_behavior(d) for d in _list_container_definitions(backend, task)}
    for container in task.containers:
        own = ends.get(container["name"], DEFAULT_BEHAVIOR)
        has_ended = own.exits_after is not None and own.exits_after <= age
        container["exitCode"] = own.exit_code if has_ended else 0
        if has_ended and own.exit_reason:
            container["reason"] = own.exit_reason
    task.execution_stopped_at = CLOCK.now()
    stop_task(backend, task, code=EXITED, reason="Essential container in task exited")


def _finish_deactivating(backend: "SandboxEcs", task: SandboxTask) -> None:
    # A real process ends in its own time; the poll of processes then continues the task.
    _enter_state(
        task, "STOPPING", NEVER if processes.terminate_containers(backend, task) else GRACEFUL_STOP_SECONDS
    )


def _stop_containers(task: SandboxTask) -> None:
    for container in task.containers:
        container["lastStatus"] = "STOPPED"
        if task.started_at is not None:
            container.setdefault("exitCode", get_behavior(container["image"]).stopped_code)


def _finish_stopping(_: "SandboxEcs", task: SandboxTask) -> None:
    task.execution_stopped_at = task.execution_stopped_at or CLOCK.now()
    _stop_containers(task)
    _enter_state(task, "DEPROVISIONING", DEPROVISIONING_SECONDS)


def _finish_deprovisioning(backend: "SandboxEcs", task: SandboxTask) -> None:
    backend.index.free_address(task)
    task.stopped_at = CLOCK.now()
    task.stopped_since = CLOCK.elapsed
    for attachment in task.attachments:
        attachment["status"] = "DELETED"
    _enter_state(task, "STOPPED", NEVER)


STATE_TRANSITIONS: dict[str, Callable[["SandboxEcs", SandboxTask], None]] = {
    "PROVISIONING": _finish_provisioning,
    "PENDING": _finish_pulling,
    "ACTIVATING": _finish_activating,
    "RUNNING": _finish_running,
    "DEACTIVATING": _finish_deactivating,
    "STOPPING": _finish_stopping,
    "DEPROVISIONING": _finish_deprovisioning,
}


def stop_task(backend: "SandboxEcs", task: SandboxTask, *, code: str, reason: str) -> None:
    """Start to stop a task in any state; a stopping task continues unchanged."""
    if not task.is_live:
        return
    task.desired_status = "STOPPED"
    task.stop_code, task.stopped_reason = code, reason
    task.stopping_at = CLOCK.now()
    if service := backend.service_of(task):
        service.due_at = 0.0
    draining = targets.deregister_task_targets(backend, task)
    if task.is_running and code != EXITED:
        _enter_state(task, "DEACTIVATING", draining)
        return
    _stop_containers(task)
    _enter_state(task, "DEPROVISIONING", DEPROVISIONING_SECONDS)


def poll_processes(backend: "SandboxEcs") -> bool:
    """Forward output, detect ended processes, kill slow ones; return whether anything changed."""
    changed = False
    for program in list(CONTAINER_PROCESSES.running.values()):
        task = _find_task(backend, program)
        if task is not None:
            changed |= _poll_process(backend, task, program)
    return changed


def _find_task(backend: "SandboxEcs", program: ContainerProcess) -> SandboxTask | None:
    region, account_id = program.task_arn.split(":")[3:5]
    if (region, account_id) != (backend.region_name, backend.account_id):
        return None
    cluster = program.task_arn.split("/")[1]
    return backend.tasks.get(cluster, {}).get(program.task_arn)


def _poll_process(backend: "SandboxEcs", task: SandboxTask, program: ContainerProcess) -> bool:
    code = program.exit_code()
    container = next(c for c in task.containers if c["containerArn"] == program.container_arn)
    changed = _forward_output(backend, task, program, container["name"])
    if code is None:
        if task.last_status in FINAL_STATUSES or program.is_overdue:
            program.kill()
        return changed
    CONTAINER_PROCESSES.forget(program)
    _record_exit(backend, task, container, code)
    return True


def _forward_output(backend: "SandboxEcs", task: SandboxTask, program: ContainerProcess, name: str) -> bool:
    lines = program.pop_lines()
    definition = next((d for d in backend.definition_of(task).containers if d["name"] == name), None)
    if lines and definition is not None:
        logs.write_process_lines(backend.account_id, backend.region_name, task, definition, lines)
    return bool(lines)


def _record_exit(backend: "SandboxEcs", task: SandboxTask, container: dict[str, Any], code: int) -> None:
    container["exitCode"] = code
    container["lastStatus"] = "STOPPED"
    task.version += 1
    definitions = {d["name"]: d for d in backend.definition_of(task).containers}
    if task.is_live and definitions[container["name"]].get("essential", True):
        task.execution_stopped_at = CLOCK.now()
        reason = "Essential container in task exited"
        stop_task(backend, task, code=EXITED, reason=reason)
    elif task.last_status == "STOPPING" and not CONTAINER_PROCESSES.of_task(task.task_arn):
        task.next_at, task.due_at = CLOCK.elapsed, 0.0


def _check_health(backend: "SandboxEcs", task: SandboxTask) -> bool:
    """Run the container health checks of a task, and return whether its health changed."""
    checks = [d["healthCheck"] for d in _list_container_definitions(backend, task) if d.get("healthCheck")]
    if not checks or task.running_since is None:
        return False
    age = CLOCK.elapsed - task.running_since
    slowest = max(float(c.get("interval", 30)) for c in checks)
    failing = max(c.get("startPeriod", 0) + c.get("interval", 30) * c.get("retries", 3) for c in checks)
    healthy = get_task_behavior(task).healthy
    status = "HEALTHY" if healthy and age >= slowest else task.health_status
    if not healthy and age >= failing:
        status = "UNHEALTHY"
    if status == task.health_status:
        return False
    task.health_status = status
    task.version += 1
    checked = {d["name"] for d in _list_container_definitions(backend, task) if d.get("healthCheck")}
    for container in task.containers:
        if container["name"] in checked:
            container["healthStatus"] = status
    return True


def has_health_check(backend: "SandboxEcs", task: SandboxTask) -> bool:
    """Return whether a target group or a container health check monitors a task."""
    return bool(task.targets) or any(d.get("healthCheck") for d in _list_container_definitions(backend, task))


def is_healthy(backend: "SandboxEcs", task: SandboxTask) -> bool:
    """Return whether a task counts as healthy for its service.

    With target groups: healthy there. With container health checks: HEALTHY. Otherwise: RUNNING for forty
    seconds, like the service scheduler.
    """
    if not (task.is_live and task.is_running) or task.running_since is None:
        return False
    has_check = any(d.get("healthCheck") for d in _list_container_definitions(backend, task))
    if has_check and task.health_status != "HEALTHY":
        return False
    if task.targets and not targets.are_healthy(backend, task):
        return False
    return has_health_check(backend, task) or CLOCK.elapsed - task.running_since >= UNCHECKED_SECONDS
