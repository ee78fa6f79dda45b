"""The deployment circuit breaker: counting failed tasks, failing a deployment, rolling back."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.ecs import events, rollback
from sandbox.ecs.lifecycle import EXITED, FAILED_TO_START
from sandbox.ecs.records import Deployment, Service, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST, MOST = 3, 200
FIRST_BACK_OFF, LONGEST_BACK_OFF = 30.0, 900.0
TOLD_AFTER = 3
TASKS_FAILED = "ECS deployment circuit breaker: tasks failed to start."


def settings_of(service: Service) -> Mapping[str, Any]:
    found: Mapping[str, Any] = service.deployment_configuration.get("deploymentCircuitBreaker") or {}
    return found


def threshold(service: Service) -> int:
    """How many consecutive failures end a deployment."""
    configured = settings_of(service).get("thresholdConfiguration") or {}
    kind = configured.get("type", "BOUNDED_PERCENT")
    value = float(configured.get("value", 50))
    if kind == "COUNT":
        return int(value)
    wanted = math.ceil(service.desired_count * value / 100)
    return max(wanted, 1) if kind == "UNBOUNDED_PERCENT" else min(max(wanted, LEAST), MOST)


def count(service: Service, deployment: Deployment, tasks: "Sequence[Task]") -> bool:
    """Count the tasks of a deployment that failed since the last look; True if there were any."""
    failed = [t for t in tasks if _has_failed(t)]
    for task in failed:
        task.counted_failed = True
        deployment.failed_tasks += 1
        if task.stop_code == FAILED_TO_START:
            _back_off(deployment)
            events.unable_to_place(service, task.stopped_reason or "")
    if failed and deployment.failed_tasks >= TOLD_AFTER and not settings_of(service).get("enable"):
        events.unable_to_start_consistently(service)
    return bool(failed)


def _has_failed(task: Task) -> bool:
    if task.is_live or task.counted_failed or task.counted_healthy:
        return False
    return task.stop_code in (FAILED_TO_START, EXITED) or (task.stopped_reason or "").startswith(
        "Task failed"
    )


def _back_off(deployment: Deployment) -> None:
    wait = min(FIRST_BACK_OFF * 2**deployment.failed_launches, LONGEST_BACK_OFF)
    deployment.failed_launches += 1
    deployment.no_launch_before = CLOCK.elapsed + wait


def note_healthy(service: Service, deployment: Deployment, task: Task) -> None:
    """A task became healthy: what failed before it is forgiven."""
    task.counted_healthy = True
    deployment.failed_launches = 0
    deployment.no_launch_before = 0.0
    if settings_of(service).get("resetOnHealthyTask", True):
        deployment.failed_tasks = 0
    events.resolve(service)


def has_tripped(service: Service, deployment: Deployment) -> bool:
    return bool(
        settings_of(service).get("enable")
        and deployment.rollout_state == "IN_PROGRESS"
        and deployment.failed_tasks >= threshold(service)
    )


def trip(service: Service, deployment: Deployment) -> None:
    """Fail a deployment and, if asked for and possible, take up the last completed one again."""
    deployment.rollout_state = "FAILED"
    deployment.rollout_state_reason = TASKS_FAILED
    deployment.updated_at = CLOCK.now()
    events.deployment_failed(service, deployment)
    target = service.last_completed
    record = next((d for d in service.history if d.status in ("IN_PROGRESS", "ROLLBACK_IN_PROGRESS")), None)
    if record is not None:
        record.deployment_circuit_breaker = {
            "status": "TRIGGERED",
            "failureCount": deployment.failed_tasks,
            "threshold": threshold(service),
        }
        record.status_reason = TASKS_FAILED
        record.updated_at = CLOCK.now()
    if settings_of(service).get("rollback") and target is not None and target is not deployment:
        rollback.take_up(service, deployment, target, reason=rollback.BY_BREAKER)
    elif record is not None:
        record.status = "ROLLBACK_FAILED" if deployment.is_rollback else "STOPPED"
        record.stopped_at = record.finished_at = CLOCK.now()
