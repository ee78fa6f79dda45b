"""Service scheduler that moves each ECS service towards its desired state on every tick."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from sandbox.clock import CLOCK
from sandbox.services.ecs import (
    daemons,
    deployments,
    event_bridge,
    events,
    rollbacks,
    targets,
    task_lifecycle,
)
from sandbox.services.ecs.container_instances import PlacementFailure, SandboxContainerInstance
from sandbox.services.ecs.express_services import managed_resources
from sandbox.services.ecs.managed_deployments import alarms, traffic
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

STEADY_AFTER_SECONDS = 10.0
# Interval of checks of an unchanged service with running tasks: 2 to 4 minutes, different for each service.
IDLE_SECONDS = 120
STARTING_STATUSES = ("PROVISIONING", "PENDING", "ACTIVATING")
LIVE_STATUSES = (*STARTING_STATUSES, "RUNNING", "DEACTIVATING")


@dataclass(frozen=True)
class ServiceView:
    """View of a service in one step: its desired tasks, and the healthy ones among them."""

    service: SandboxService
    tasks: tuple[SandboxTask, ...]
    healthy: frozenset[str]
    unchecked: frozenset[str]

    def of(self, deployment: SandboxDeployment) -> list[SandboxTask]:
        return [t for t in self.tasks if t.started_by == deployment.id]

    def live_of(self, deployment: SandboxDeployment) -> list[SandboxTask]:
        return [t for t in self.of(deployment) if t.is_live]

    @property
    def live(self) -> list[SandboxTask]:
        return [t for t in self.tasks if t.is_live]

    def is_healthy(self, task: SandboxTask) -> bool:
        return task.task_arn in self.healthy

    def serves(self, task: SandboxTask) -> bool:
        """Return whether an earlier deployment's task counts: healthy, or running without a health check."""
        return self.is_healthy(task) or (task.is_running and task.task_arn in self.unchecked)


def read_service_view(backend: "SandboxEcs", service: SandboxService) -> ServiceView:
    tasks = tuple(backend.tasks_of(service))
    healthy = frozenset(t.task_arn for t in tasks if task_lifecycle.is_healthy(backend, t))
    unchecked = frozenset(t.task_arn for t in tasks if not task_lifecycle.has_health_check(backend, t))
    return ServiceView(service, tasks, healthy, unchecked)


def reconcile_service(backend: "SandboxEcs", service: SandboxService) -> bool:
    """Reconcile a service by one step, and return whether anything changed."""
    if service.status == "INACTIVE":
        return False
    if service.status == "DRAINING":
        return _drain_service(backend, service)
    primary = service.primary
    if primary is None:
        return False
    changed = _stop_unhealthy(backend, service)
    view = read_service_view(backend, service)
    changed |= _update_breaker(service, primary, view)
    primary = service.primary or primary
    if _end_by_alarm(backend, service, primary):
        changed, primary = True, service.primary or primary
    traffic.return_traffic(backend, service)
    if traffic.holds_source(service):
        return changed | _advance_side_by_side(backend, service, primary, view)
    scale = _scale_daemon if daemons.is_daemon(service) else _scale_service
    if scale(backend, view, primary):
        changed, view = True, read_service_view(backend, service)
    changed |= _update_counts(service, view)
    changed |= _update_rollout(service, primary, view)
    is_quiet = not changed and primary.rollout_state == "COMPLETED" and primary.settled_since is not None
    service.due_at = CLOCK.elapsed + _get_idle_seconds(service) if is_quiet else 0.0
    return changed


def _end_by_alarm(backend: "SandboxEcs", service: SandboxService, primary: SandboxDeployment) -> bool:
    """Roll back or fail a deployment whose alarm is in ALARM, and return whether there is one."""
    reason, is_rolled_back = alarms.read_alarms(backend, service)
    if not reason:
        return False
    if is_rolled_back:
        rollbacks.roll_back(service, primary, reason)
    else:
        rollbacks.stop_deployment(service, primary, reason)
    return True


def _advance_side_by_side(
    backend: "SandboxEcs", service: SandboxService, primary: SandboxDeployment, view: ServiceView
) -> bool:
    """Keep the source and the target revision complete, and advance the stages; earlier ones drain."""
    source = traffic.find_source(service)
    kept = [source] if source else []
    if traffic.may_run_target(service):
        kept.append(primary)
    changed = False
    for deployment in kept:
        tasks = sorted(view.live_of(deployment), key=view.is_healthy)
        missing = service.desired_count - len(tasks)
        changed |= _stop_tasks(backend, service, tasks[: max(-missing, 0)])
        if CLOCK.elapsed >= deployment.no_launch_before:
            changed |= bool(_start_tasks(backend, service, deployment, missing))
    ids = {deployment.id for deployment in (*kept, primary)}
    changed |= _stop_tasks(backend, service, [t for t in view.live if t.started_by not in ids])
    view = read_service_view(backend, service)
    changed |= _update_counts(service, view)
    current = view.live_of(primary)
    is_scaled = len(current) == service.desired_count and all(view.is_healthy(t) for t in current)
    if reason := traffic.advance_stages(backend, service, primary, is_scaled=is_scaled):
        rollbacks.roll_back(service, primary, reason)
        traffic.return_traffic(backend, service)
    service.due_at = 0.0
    return True


def _get_idle_seconds(service: SandboxService) -> int:
    return IDLE_SECONDS + crc32(service.service_arn.encode()) % IDLE_SECONDS


def _drain_service(backend: "SandboxEcs", service: SandboxService) -> bool:
    view = read_service_view(backend, service)
    _stop_tasks(backend, service, view.live)
    changed = _update_counts(service, view)
    if any(t.last_status in LIVE_STATUSES for t in view.tasks):
        return changed
    service.status = "INACTIVE"
    service.inactive_since = CLOCK.elapsed
    service.deployments = []
    if service.resource_management_type == "ECS":
        managed_resources.delete_resources(backend, service)
    return True


def _stop_unhealthy(backend: "SandboxEcs", service: SandboxService) -> bool:
    grace = float(service.health_check_grace_period_seconds or 0)
    stopped = [
        t for t in backend.tasks_of(service) if t.is_live and _stop_if_unhealthy(backend, service, t, grace)
    ]
    return bool(stopped)


def _stop_if_unhealthy(
    backend: "SandboxEcs", service: SandboxService, task: SandboxTask, grace: float
) -> bool:
    if task.health_status == "UNHEALTHY":
        events.add_container_check_failed(service, task)
        reason = "Task failed container health checks"
    elif target := targets.find_unhealthy_target(backend, task, grace=grace):
        events.add_load_balancer_check_failed(service, task, target[1], target[0])
        reason = f"Task failed ELB health checks in (target-group {target[0]})"
    else:
        return False
    events.add_running_tasks_stopped(service, [task])
    task_lifecycle.stop_task(backend, task, code=task_lifecycle.BY_SCHEDULER, reason=reason)
    return True


def _update_breaker(service: SandboxService, primary: SandboxDeployment, view: ServiceView) -> bool:
    """Count failures and recoveries of the primary deployment and let the circuit breaker decide."""
    changed = rollbacks.start_requested_rollback(service, primary)
    for task in view.of(primary):
        if view.is_healthy(task) and not task.counted_healthy:
            rollbacks.reset_failures(service, primary, task)
            changed = True
    changed |= rollbacks.count_failures(service, primary, view.of(primary))
    if rollbacks.has_tripped(service, primary):
        rollbacks.trip_breaker(service, primary)
        changed = True
    return changed


def _scale_service(backend: "SandboxEcs", view: ServiceView, primary: SandboxDeployment) -> bool:
    """Start and stop tasks within the percentages."""
    service = view.service
    configuration = service.deployment_configuration
    lower = math.ceil(service.desired_count * configuration["minimumHealthyPercent"] / 100)
    upper = math.floor(service.desired_count * configuration["maximumPercent"] / 100)
    current = view.live_of(primary)
    other_tasks = [t for t in view.live if t not in current]
    missing = service.desired_count - len(current)
    if primary.rollout_state == "FAILED":
        return False
    room = max(upper - len(view.live), 0)
    stopped = _stop_tasks(
        backend,
        service,
        _list_excess_tasks(view, current, other_tasks, lower=lower, missing=max(missing - room, 0)),
    )
    room = max(upper - len(view.live), 0)
    started = 0
    if CLOCK.elapsed >= primary.no_launch_before:
        started = _start_tasks(backend, service, primary, min(missing, room))
    if missing > 0 == room and not stopped and all(view.is_healthy(t) for t in view.live):
        events.add_blocked_by_percentages(service)
    return bool(stopped or started)


def _scale_daemon(backend: "SandboxEcs", view: ServiceView, primary: SandboxDeployment) -> bool:
    """Start and stop tasks so that each matching container instance runs one; the count is theirs."""
    service = view.service
    machines = daemons.list_matching_instances(backend, service, primary)
    changed = service.desired_count != len(machines)
    service.desired_count = len(machines)
    if primary.rollout_state == "FAILED":
        return changed
    changes = daemons.plan_changes(
        machines,
        primary,
        view.tasks,
        serving=frozenset(task.task_arn for task in view.live if view.serves(task)),
        percent=service.deployment_configuration["minimumHealthyPercent"],
    )
    stopped = _stop_tasks(backend, service, changes.stopped)
    may_launch = CLOCK.elapsed >= primary.no_launch_before
    started = _start_tasks_on(backend, service, primary, changes.started_on) if may_launch else 0
    return bool(changed or stopped or started)


def _list_excess_tasks(
    view: ServiceView,
    current: Sequence[SandboxTask],
    other_tasks: Sequence[SandboxTask],
    *,
    lower: int,
    missing: int,
) -> list[SandboxTask]:
    """Return the tasks to stop now.

    Of earlier deployments, stop tasks without traffic. Stop others while the minimum is met, if enough new
    ones are healthy or if new ones have no room. Of the primary deployment, stop tasks above the desired
    count.
    """
    desired = view.service.desired_count
    chosen = [t for t in other_tasks if not view.serves(t)]
    # The youngest first: the older ones are healthy.
    serving = sorted((t for t in other_tasks if view.serves(t)), key=view.is_healthy)
    counted = len(serving) + sum(1 for t in current if view.is_healthy(t))
    surplus = max(counted - desired, missing - len(chosen), 0)
    allowed = max(min(counted - lower, surplus), 0)
    chosen += serving[:allowed]
    excess = len(current) - desired
    if excess > 0:
        chosen += sorted(current, key=view.is_healthy)[:excess]
    return chosen


def _stop_tasks(backend: "SandboxEcs", service: SandboxService, tasks: Sequence[SandboxTask]) -> bool:
    if not tasks:
        return False
    running = [t for t in tasks if t.is_running]
    pending = [t for t in tasks if not t.is_running]
    if running:
        events.add_running_tasks_stopped(service, running)
    if pending:
        events.add_pending_tasks_stopped(service, len(pending))
    by = service.primary.id if service.primary else ""
    for task in tasks:
        reason = f"Scaling activity initiated by (deployment {by})"
        task_lifecycle.stop_task(backend, task, code=task_lifecycle.BY_SCHEDULER, reason=reason)
    return True


def _start_tasks(
    backend: "SandboxEcs", service: SandboxService, deployment: SandboxDeployment, count: int
) -> int:
    made: list[SandboxTask] = []
    try:
        for _ in range(count):
            made.append(backend.start_service_task(service, deployment))
    except PlacementFailure as exc:
        events.add_no_container_instance(service, str(exc))
    return _report_started(backend, service, made)


def _start_tasks_on(
    backend: "SandboxEcs",
    service: SandboxService,
    deployment: SandboxDeployment,
    machines: Sequence[SandboxContainerInstance],
) -> int:
    """Start a task on each of these instances that has room for it."""
    made: list[SandboxTask] = []
    for machine in machines:
        try:
            made.append(backend.start_service_task(service, deployment, machine))
        except PlacementFailure as exc:
            events.add_no_container_instance(service, str(exc))
    return _report_started(backend, service, made)


def _report_started(backend: "SandboxEcs", service: SandboxService, made: Sequence[SandboxTask]) -> int:
    if not made:
        return 0
    unhealthy = [t for t in backend.tasks_of(service, stopped=True) if _is_unreplaced(t)]
    for task, replaced in zip(made, unhealthy, strict=False):
        task.replaces_unhealthy = replaced.is_replaced = True
    events.add_tasks_started(service, made)
    return len(made)


def _is_unreplaced(task: SandboxTask) -> bool:
    return not task.is_live and not task.is_replaced and (task.stopped_reason or "").startswith("Task failed")


def _update_counts(service: SandboxService, view: ServiceView) -> bool:
    """Set the counts of the service and its deployments; delete drained deployments."""
    before = _get_counts(service)
    service.running_count = sum(t.is_running for t in view.tasks)
    service.pending_count = sum(t.is_live and t.last_status in STARTING_STATUSES for t in view.tasks)
    for deployment in service.deployments:
        tasks = view.of(deployment)
        deployment.running_count = sum(t.is_running for t in tasks)
        deployment.pending_count = sum(t.is_live and t.last_status in STARTING_STATUSES for t in tasks)
        is_primary = deployment.status == "PRIMARY"
        deployment.desired_count = service.desired_count if is_primary else sum(t.is_live for t in tasks)
    rolling = any(d.status == "PRIMARY" and d.rollout_state == "IN_PROGRESS" for d in service.deployments)
    service.deployments = [d for d in service.deployments if _is_shown(d, rolling=rolling)]
    return before != _get_counts(service)


def _is_shown(deployment: SandboxDeployment, *, rolling: bool) -> bool:
    """Return whether ECS still lists the deployment: until it drains or, if failed, is rolled back."""
    if deployment.status == "PRIMARY" or (rolling and deployment.rollout_state == "FAILED"):
        return True
    return bool(deployment.running_count + deployment.pending_count + deployment.desired_count)


def _get_counts(service: SandboxService) -> list[tuple[str, int, int, int]]:
    return [
        (service.service_arn, service.desired_count, service.running_count, service.pending_count),
        *((d.id, d.desired_count, d.running_count, d.pending_count) for d in service.deployments),
    ]


def _update_rollout(service: SandboxService, primary: SandboxDeployment, view: ServiceView) -> bool:
    """Complete a deployment, or report a steady state, once the counts have matched for a while."""
    current = view.live_of(primary)
    is_settled = (
        not any(d.running_count + d.pending_count for d in service.deployments if d is not primary)
        and len(current) == service.desired_count
        and len(view.live) == len(current)
        and all(view.is_healthy(t) for t in current)
    )
    if not is_settled:
        primary.settled_since = None
        return False
    if primary.settled_since is None:
        primary.settled_since = CLOCK.elapsed
        return False
    if (
        primary.rollout_state == "IN_PROGRESS"
        and CLOCK.elapsed - primary.settled_since >= STEADY_AFTER_SECONDS
    ):
        deployments.complete_deployment(service, primary)
        primary.steady_since = None
    if primary.rollout_state != "COMPLETED":
        return False
    is_new = primary.settled_since != primary.steady_since
    primary.steady_since = primary.settled_since
    events.add_steady_state(service, is_repeated=is_new)
    return is_new


def tick_backend(backend: "SandboxEcs") -> bool:
    """Advance one account and region, and return whether anything changed."""
    changed = False
    for task in backend.unstopped_tasks():
        if CLOCK.elapsed >= task.due_at:
            changed |= _advance_task(backend, task)
        event_bridge.send_task_change(task)
    for service in list(backend.services.values()):
        if CLOCK.elapsed >= service.due_at:
            changed |= reconcile_service(backend, service)
    return backend.purge() or changed


def _advance_task(backend: "SandboxEcs", task: SandboxTask) -> bool:
    """Advance a task, and mark its service if more than its log changed."""
    before = task.version
    changed = task_lifecycle.advance_task(backend, task)
    if task.version != before and (service := backend.service_of(task)):
        service.due_at = 0.0
    return changed


def wake_services(backend: "SandboxEcs") -> None:
    """Mark every service for the next step, after a change outside of them."""
    for service in backend.services.values():
        service.due_at = 0.0
