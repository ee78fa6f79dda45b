"""Deployment circuit breaker, and rollbacks to the last completed deployment."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox.broken_rules import BROKEN_RULES
from sandbox.clock import CLOCK
from sandbox.journal import mark_unchanged
from sandbox.services.ecs import event_bridge, events
from sandbox.services.ecs.deployments import CONFIGURATION_FIELDS
from sandbox.services.ecs.errors import DeploymentNotStoppable, InvalidEcsParameter, ServiceDeploymentNotFound
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask, ServiceDeployment
from sandbox.services.ecs.task_lifecycle import EXITED, FAILED_TO_START

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs
if TYPE_CHECKING:
    from collections.abc import Sequence
ACTIVE_STATUSES = ("PENDING", "IN_PROGRESS")
ROLLBACK_STATUSES = ("ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS")
BREAKER_REASON = "Service deployment rolled back because the circuit breaker threshold was exceeded."
REQUEST_REASON = "Service deployment rolled back because StopServiceDeployment was called."


def request_rollback(backend: "SandboxEcs", arn: str, kind: str) -> str:
    """Request the rollback of a service deployment, which the scheduler starts soon after.

    Raises `ServiceDeploymentNotFound`, InvalidParameterException for another kind of stop, and
    `DeploymentNotStoppable` for an ended one. Source: ECS developer guide, stopping service deployments.
    """
    if kind != "ROLLBACK":
        raise InvalidEcsParameter("The stopType should be ROLLBACK.")
    for service in backend.services.values():
        for record in service.history:
            if record.service_deployment_arn == arn:
                _mark_requested(service, record)
                return arn
    raise ServiceDeploymentNotFound


def _mark_requested(service: SandboxService, record: ServiceDeployment) -> None:
    if record.status in ROLLBACK_STATUSES:
        mark_unchanged()
        return
    target = service.last_completed
    if record.status not in ACTIVE_STATUSES or target is None:
        raise DeploymentNotStoppable(record.status)
    record.status = "ROLLBACK_REQUESTED"
    record.status_reason = REQUEST_REASON
    record.updated_at = CLOCK.now()
    service.due_at = 0.0


def start_requested_rollback(service: SandboxService, primary: SandboxDeployment) -> bool:
    """Start a requested rollback, and return whether there was one."""
    target = service.last_completed
    if target is None or not any(d.status == "ROLLBACK_REQUESTED" for d in service.history):
        return False
    primary.rollout_state = "FAILED"
    primary.rollout_state_reason = f"ECS deployment {primary.id} was stopped."
    primary.updated_at = CLOCK.now()
    start_rollback(service, primary, target, reason=REQUEST_REASON)
    target.rollout_state_reason = f"ECS deployment {target.id} in progress."
    return True


def roll_back(service: SandboxService, failed: SandboxDeployment, reason: str) -> None:
    """Fail a deployment and return to the last completed one; without one it stops where it is."""
    target = service.last_completed
    if target is None or target is failed:
        stop_deployment(service, failed, reason)
        return
    _mark_failed(service, failed, reason)
    start_rollback(service, failed, target, reason=reason)


def stop_deployment(service: SandboxService, failed: SandboxDeployment, reason: str) -> None:
    """Fail a deployment; its tasks stay."""
    record = service.history[0]
    _mark_failed(service, failed, reason)
    record.status = "STOPPED"
    record.stopped_at = record.finished_at = CLOCK.now()


def _mark_failed(service: SandboxService, failed: SandboxDeployment, reason: str) -> None:
    service.history[0].status_reason = failed.rollout_state_reason = reason
    service.history[0].updated_at = failed.updated_at = CLOCK.now()
    failed.rollout_state = "FAILED"


def start_rollback(
    service: SandboxService, failed: SandboxDeployment, target: SandboxDeployment, *, reason: str
) -> None:
    """Make an earlier deployment the primary one again, with its old id."""
    events.add_rolling_back(service, target)
    failed.status = "ACTIVE"
    target.status = "PRIMARY"
    target.rollout_state = "IN_PROGRESS"
    target.rollout_state_reason = f"ECS deployment circuit breaker: rolling back to deploymentId {target.id}."
    target.updated_at = CLOCK.now()
    target.desired_count = service.desired_count
    target.failed_tasks = target.failed_launches = 0
    target.no_launch_before = 0.0
    target.settled_since = None
    target.is_rollback = True
    service.deployments = [target, *(d for d in service.deployments if d is not target)]
    for name in CONFIGURATION_FIELDS:
        setattr(service, name, getattr(target, name))
    _record_rollback(service, target, reason)
    event_bridge.send_deployment_change(service, target, "IN_PROGRESS")


def _record_rollback(service: SandboxService, target: SandboxDeployment, reason: str) -> None:
    open_ones = (d for d in service.history if d.status in (*ACTIVE_STATUSES, "ROLLBACK_REQUESTED"))
    record = next(open_ones, None)
    if record is None or target.id not in service.revisions:
        return
    record.status = "ROLLBACK_IN_PROGRESS"
    record.rollback = {
        "reason": reason,
        "startedAt": CLOCK.now(),
        "serviceRevisionArn": service.revisions[target.id].service_revision_arn,
    }


MIN_THRESHOLD, MAX_THRESHOLD = 3, 200
INITIAL_BACKOFF, MAX_BACKOFF = 30.0, 900.0
EVENT_AFTER_FAILURES = 3
TASKS_FAILED = "ECS deployment circuit breaker: tasks failed to start."


def get_breaker_settings(service: SandboxService) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = service.deployment_configuration.get("deploymentCircuitBreaker") or {}
    return settings


def compute_threshold(service: SandboxService) -> int:
    """Return the number of consecutive failures that ends a deployment."""
    return _compute_threshold(service) * (2 if "breaker_threshold" in BROKEN_RULES else 1)


def _compute_threshold(service: SandboxService) -> int:
    configured = get_breaker_settings(service).get("thresholdConfiguration") or {}
    kind = configured.get("type", "BOUNDED_PERCENT")
    value = float(configured.get("value", 50))
    if kind == "COUNT":
        return int(value)
    share = math.ceil(service.desired_count * value / 100)
    return max(share, 1) if kind == "UNBOUNDED_PERCENT" else min(max(share, MIN_THRESHOLD), MAX_THRESHOLD)


def count_failures(
    service: SandboxService, deployment: SandboxDeployment, tasks: "Sequence[SandboxTask]"
) -> bool:
    """Count newly failed tasks of a deployment, and return whether there were any."""
    failed = [t for t in tasks if _has_failed(t)]
    for task in failed:
        task.counted_failed = True
        deployment.failed_tasks += 1
        if task.stop_code == FAILED_TO_START:
            _back_off(deployment)
            events.add_placement_failed(service, task.stopped_reason or "")
    if (
        failed
        and deployment.failed_tasks >= EVENT_AFTER_FAILURES
        and not get_breaker_settings(service).get("enable")
    ):
        events.add_start_failures(service)
    return bool(failed)


def _has_failed(task: SandboxTask) -> bool:
    if task.is_live or task.counted_failed or task.counted_healthy:
        return False
    return task.stop_code in (FAILED_TO_START, EXITED) or (task.stopped_reason or "").startswith(
        "Task failed"
    )


def _back_off(deployment: SandboxDeployment) -> None:
    wait = min(INITIAL_BACKOFF * 2**deployment.failed_launches, MAX_BACKOFF)
    deployment.failed_launches += 1
    deployment.no_launch_before = CLOCK.elapsed + wait


def reset_failures(service: SandboxService, deployment: SandboxDeployment, task: SandboxTask) -> None:
    """Reset the failure count after a task became healthy."""
    task.counted_healthy = True
    deployment.failed_launches = 0
    deployment.no_launch_before = 0.0
    if get_breaker_settings(service).get("resetOnHealthyTask", True):
        deployment.failed_tasks = 0
    events.reset_repeats(service)


def has_tripped(service: SandboxService, deployment: SandboxDeployment) -> bool:
    return bool(
        get_breaker_settings(service).get("enable")
        and deployment.rollout_state == "IN_PROGRESS"
        and deployment.failed_tasks >= compute_threshold(service)
    )


def trip_breaker(service: SandboxService, deployment: SandboxDeployment) -> None:
    """Fail a deployment and, if configured and possible, restore the last completed one."""
    deployment.rollout_state = "FAILED"
    deployment.rollout_state_reason = TASKS_FAILED
    deployment.updated_at = CLOCK.now()
    events.add_deployment_failed(service, deployment)
    target = service.last_completed
    record = next((d for d in service.history if d.status in ("IN_PROGRESS", "ROLLBACK_IN_PROGRESS")), None)
    if record is not None:
        record.deployment_circuit_breaker = {
            "status": "TRIGGERED",
            "failureCount": deployment.failed_tasks,
            "threshold": compute_threshold(service),
        }
        record.status_reason = TASKS_FAILED
        record.updated_at = CLOCK.now()
    if get_breaker_settings(service).get("rollback") and target is not None and target is not deployment:
        start_rollback(service, deployment, target, reason=BREAKER_REASON)
    elif record is not None:
        record.status = "ROLLBACK_FAILED" if deployment.is_rollback else "STOPPED"
        record.stopped_at = record.finished_at = CLOCK.now()
