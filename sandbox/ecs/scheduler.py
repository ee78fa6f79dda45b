"""The service scheduler: on every step of the clock it brings each service nearer to what was asked of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from sandbox.clock import CLOCK
from sandbox.ecs import breaker, deployments, events, lifecycle, rollback, targets
from sandbox.ecs.instances import NoPlace
from sandbox.ecs.records import Deployment, Service, Task

if TYPE_CHECKING:
    from sandbox.ecs.backend import SandboxEcs

SETTLING_SECONDS = 10.0
# How seldom the scheduler looks at a service that nobody changes and whose tasks all run: in 2 to 4 minutes,
# each service at another moment.
QUIET_SECONDS = 120
STARTING = ("PROVISIONING", "PENDING", "ACTIVATING")
LIVING = (*STARTING, "RUNNING", "DEACTIVATING")


@dataclass(frozen=True)
class View:
    """What one look at a service sees: its tasks that are meant to run, and which of them are healthy."""

    service: Service
    tasks: tuple[Task, ...]
    healthy: frozenset[str]
    unchecked: frozenset[str]

    def of(self, deployment: Deployment) -> list[Task]:
        return [t for t in self.tasks if t.started_by == deployment.id]

    def live_of(self, deployment: Deployment) -> list[Task]:
        return [t for t in self.of(deployment) if t.is_live]

    @property
    def live(self) -> list[Task]:
        return [t for t in self.tasks if t.is_live]

    def is_healthy(self, task: Task) -> bool:
        return task.task_arn in self.healthy

    def serves(self, task: Task) -> bool:
        """Whether a task of an earlier deployment counts: healthy, or running where nothing checks it."""
        return self.is_healthy(task) or (task.is_running and task.task_arn in self.unchecked)


def look(backend: "SandboxEcs", service: Service) -> View:
    tasks = tuple(backend.tasks_of(service))
    healthy = frozenset(t.task_arn for t in tasks if lifecycle.is_healthy(backend, t))
    unchecked = frozenset(t.task_arn for t in tasks if not lifecycle.is_checked(backend, t))
    return View(service, tasks, healthy, unchecked)


def reconcile(backend: "SandboxEcs", service: Service) -> bool:
    """Take one step for a service; True if anything changed."""
    if service.status == "INACTIVE":
        return False
    if service.status == "DRAINING":
        return _drain(backend, service)
    primary = service.primary
    if not service.is_scheduled or primary is None:
        return False
    changed = _stop_unhealthy(backend, service)
    view = look(backend, service)
    changed |= _judge(service, primary, view)
    primary = service.primary or primary
    if _scale(backend, view, primary):
        changed, view = True, look(backend, service)
    changed |= _count(service, view)
    changed |= _roll_out(service, primary, view)
    is_quiet = not changed and primary.rollout_state == "COMPLETED" and primary.settled_since is not None
    service.look_at = CLOCK.elapsed + _quiet_seconds(service) if is_quiet else 0.0
    return changed


def _quiet_seconds(service: Service) -> int:
    return QUIET_SECONDS + crc32(service.service_arn.encode()) % QUIET_SECONDS


def _drain(backend: "SandboxEcs", service: Service) -> bool:
    view = look(backend, service)
    _stop(backend, service, view.live)
    changed = _count(service, view)
    if any(t.last_status in LIVING for t in view.tasks):
        return changed
    service.status = "INACTIVE"
    service.inactive_since = CLOCK.elapsed
    service.deployments = []
    return True


def _stop_unhealthy(backend: "SandboxEcs", service: Service) -> bool:
    grace = float(service.health_check_grace_period_seconds or 0)
    stopped = [
        t for t in backend.tasks_of(service) if t.is_live and _stop_if_unhealthy(backend, service, t, grace)
    ]
    return bool(stopped)


def _stop_if_unhealthy(backend: "SandboxEcs", service: Service, task: Task, grace: float) -> bool:
    if task.health_status == "UNHEALTHY":
        events.failed_container_check(service, task)
        reason = "Task failed container health checks"
    elif target := targets.first_unhealthy(backend, task, grace=grace):
        events.failed_load_balancer_check(service, task, target[1], target[0])
        reason = f"Task failed ELB health checks in (target-group {target[0]})"
    else:
        return False
    events.stopped_running(service, [task])
    lifecycle.stop(backend, task, code=lifecycle.BY_SCHEDULER, reason=reason)
    return True


def _judge(service: Service, primary: Deployment, view: View) -> bool:
    """Count failures and recoveries of the primary deployment and let the circuit breaker decide."""
    changed = rollback.carry_out(service, primary)
    for task in view.of(primary):
        if view.is_healthy(task) and not task.counted_healthy:
            breaker.note_healthy(service, primary, task)
            changed = True
    changed |= breaker.count(service, primary, view.of(primary))
    if breaker.has_tripped(service, primary):
        breaker.trip(service, primary)
        changed = True
    return changed


def _scale(backend: "SandboxEcs", view: View, primary: Deployment) -> bool:
    """Start and stop tasks as far as the percentages allow."""
    service = view.service
    configuration = service.deployment_configuration
    lower = math.ceil(service.desired_count * configuration["minimumHealthyPercent"] / 100)
    upper = math.floor(service.desired_count * configuration["maximumPercent"] / 100)
    mine = view.live_of(primary)
    others = [t for t in view.live if t not in mine]
    wanted = service.desired_count - len(mine)
    if primary.rollout_state == "FAILED":
        return False
    room = max(upper - len(view.live), 0)
    stopped = _stop(
        backend, service, _superfluous(view, mine, others, lower=lower, missing=max(wanted - room, 0))
    )
    room = max(upper - len(view.live), 0)
    started = 0
    if CLOCK.elapsed >= primary.no_launch_before:
        started = _start(backend, service, primary, min(wanted, room))
    if wanted > 0 == room and not stopped and all(view.is_healthy(t) for t in view.live):
        events.blocked_by_percentages(service)
    return bool(stopped or started)


def _superfluous(
    view: View, mine: Sequence[Task], others: Sequence[Task], *, lower: int, missing: int
) -> list[Task]:
    """The tasks to stop now.

    Of earlier deployments: those that serve nobody, and of those that serve as many as are not needed to stay
    above the minimum, either because enough new ones are healthy or because there is no room to start the new
    ones otherwise. Of the primary deployment: what exceeds the desired count.
    """
    desired = view.service.desired_count
    chosen = [t for t in others if not view.serves(t)]
    # The youngest first: the older ones are known to be healthy.
    serving = sorted((t for t in others if view.serves(t)), key=view.is_healthy)
    counted = len(serving) + sum(1 for t in mine if view.is_healthy(t))
    surplus = max(counted - desired, missing - len(chosen), 0)
    allowed = max(min(counted - lower, surplus), 0)
    chosen += serving[:allowed]
    excess = len(mine) - desired
    if excess > 0:
        chosen += sorted(mine, key=view.is_healthy)[:excess]
    return chosen


def _stop(backend: "SandboxEcs", service: Service, tasks: Sequence[Task]) -> bool:
    if not tasks:
        return False
    running = [t for t in tasks if t.is_running]
    pending = [t for t in tasks if not t.is_running]
    if running:
        events.stopped_running(service, running)
    if pending:
        events.stopped_pending(service, len(pending))
    by = service.primary.id if service.primary else ""
    for task in tasks:
        reason = f"Scaling activity initiated by (deployment {by})"
        lifecycle.stop(backend, task, code=lifecycle.BY_SCHEDULER, reason=reason)
    return True


def _start(backend: "SandboxEcs", service: Service, deployment: Deployment, count: int) -> int:
    if count <= 0:
        return 0
    made: list[Task] = []
    try:
        for _ in range(count):
            made.append(backend.start_service_task(service, deployment))
    except NoPlace as exc:
        events.no_place(service, str(exc))
    if not made:
        return 0
    unhealthy = [t for t in backend.tasks_of(service, stopped=True) if _is_unreplaced(t)]
    for task, replaced in zip(made, unhealthy, strict=False):
        task.replaces_unhealthy = replaced.is_replaced = True
    events.started(service, made)
    return len(made)


def _is_unreplaced(task: Task) -> bool:
    return not task.is_live and not task.is_replaced and (task.stopped_reason or "").startswith("Task failed")


def _count(service: Service, view: View) -> bool:
    """Set the counts of the service and its deployments; forget deployments that have drained."""
    before = _counts(service)
    service.running_count = sum(t.is_running for t in view.tasks)
    service.pending_count = sum(t.is_live and t.last_status in STARTING for t in view.tasks)
    for deployment in service.deployments:
        tasks = view.of(deployment)
        deployment.running_count = sum(t.is_running for t in tasks)
        deployment.pending_count = sum(t.is_live and t.last_status in STARTING for t in tasks)
        is_primary = deployment.status == "PRIMARY"
        deployment.desired_count = service.desired_count if is_primary else sum(t.is_live for t in tasks)
    rolling = any(d.status == "PRIMARY" and d.rollout_state == "IN_PROGRESS" for d in service.deployments)
    service.deployments = [d for d in service.deployments if _is_shown(d, rolling=rolling)]
    return before != _counts(service)


def _is_shown(deployment: Deployment, *, rolling: bool) -> bool:
    """An earlier deployment is shown until it has drained; one that failed, until the rollback is over."""
    if deployment.status == "PRIMARY" or (rolling and deployment.rollout_state == "FAILED"):
        return True
    return bool(deployment.running_count + deployment.pending_count + deployment.desired_count)


def _counts(service: Service) -> list[tuple[str, int, int, int]]:
    return [
        (service.service_arn, service.desired_count, service.running_count, service.pending_count),
        *((d.id, d.desired_count, d.running_count, d.pending_count) for d in service.deployments),
    ]


def _roll_out(service: Service, primary: Deployment, view: View) -> bool:
    """Complete a deployment, or say that the service is steady, once all is as wanted for a while."""
    mine = view.live_of(primary)
    is_settled = (
        not any(d.running_count + d.pending_count for d in service.deployments if d is not primary)
        and len(mine) == service.desired_count
        and len(view.live) == len(mine)
        and all(view.is_healthy(t) for t in mine)
    )
    if not is_settled:
        primary.settled_since = None
        return False
    if primary.settled_since is None:
        primary.settled_since = CLOCK.elapsed
        return False
    if primary.rollout_state == "IN_PROGRESS" and CLOCK.elapsed - primary.settled_since >= SETTLING_SECONDS:
        deployments.complete(service, primary)
        primary.steady_since = None
    if primary.rollout_state != "COMPLETED":
        return False
    is_new = primary.settled_since != primary.steady_since
    primary.steady_since = primary.settled_since
    events.steady(service, again=is_new)
    return is_new


def tick(backend: "SandboxEcs") -> bool:
    """Let everything in one account and region move on; True if anything changed."""
    changed = False
    for task in backend.unstopped_tasks():
        if CLOCK.elapsed >= task.look_at:
            changed |= _advance(backend, task)
    for service in list(backend.services.values()):
        if CLOCK.elapsed >= service.look_at:
            changed |= reconcile(backend, service)
    return backend.purge() or changed


def _advance(backend: "SandboxEcs", task: Task) -> bool:
    """Let a task move on, and its service be looked at if that changed more than its log."""
    before = task.version
    changed = lifecycle.advance(backend, task)
    if task.version != before and (service := backend.service_of(task)):
        service.look_at = 0.0
    return changed


def wake(backend: "SandboxEcs") -> None:
    """Look at every service at the next step: something outside them changed."""
    for service in backend.services.values():
        service.look_at = 0.0
