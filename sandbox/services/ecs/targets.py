"""Load balancer targets of ECS tasks."""

from typing import TYPE_CHECKING

from sandbox.clock import CLOCK
from sandbox.images import BEHAVIORS, DEFAULT_BEHAVIOR
from sandbox.services import elb
from sandbox.services.ecs import events
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs


def register_task_targets(backend: "SandboxEcs", task: SandboxTask) -> None:
    healthy = BEHAVIORS.get(task.behavior, DEFAULT_BEHAVIOR).healthy
    for arn, port in task.targets:
        group = elb.find_group(backend.account_id, backend.region_name, arn)
        if group is not None:
            elb.register_target(group, ip=task.ip, port=port, will_be_healthy=healthy)
            if service := backend.service_of(task):
                events.add_targets_registered(service, arn, 1)


def deregister_task_targets(backend: "SandboxEcs", task: SandboxTask) -> float:
    """Start to drain a task's targets, and return the duration in seconds."""
    seconds = 0.0
    for arn, _ in task.targets:
        group = elb.find_group(backend.account_id, backend.region_name, arn)
        if group is not None and elb.deregister_target(group, task.ip):
            seconds = max(seconds, elb.get_drain_seconds(group))
            if service := backend.service_of(task):
                events.add_targets_deregistered(service, arn, 1)
                events.add_draining(service, _get_deployment(service, task), 1)
    return seconds


def _get_deployment(service: SandboxService, task: SandboxTask) -> SandboxDeployment | None:
    return next((d for d in service.deployments if d.id == task.started_by), None)


def are_healthy(backend: "SandboxEcs", task: SandboxTask) -> bool:
    groups = [elb.find_group(backend.account_id, backend.region_name, arn) for arn, _ in task.targets]
    return all(group is not None and elb.get_target_state(group, task.ip) == "healthy" for group in groups)


def find_unhealthy_target(
    backend: "SandboxEcs", task: SandboxTask, *, grace: float
) -> tuple[str, int] | None:
    """Return the target group (and port) in which a task failed its checks, once its grace period is over."""
    if task.running_since is None or CLOCK.elapsed - task.running_since < grace:
        return None
    for arn, port in task.targets:
        group = elb.find_group(backend.account_id, backend.region_name, arn)
        if group is not None and elb.get_target_state(group, task.ip) == "unhealthy":
            return arn, port
    return None
