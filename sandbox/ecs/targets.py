"""The targets of tasks in load balancer target groups, kept by the service scheduler."""

from typing import TYPE_CHECKING

from sandbox import elb
from sandbox.clock import CLOCK
from sandbox.ecs import events
from sandbox.ecs.records import Deployment, Service, Task
from sandbox.images import BEHAVIORS, RUNS

if TYPE_CHECKING:
    from sandbox.ecs.backend import SandboxEcs


def register(backend: "SandboxEcs", task: Task) -> None:
    healthy = BEHAVIORS.get(task.behavior, RUNS).healthy
    for arn, port in task.targets:
        group = elb.find_group(backend.account_id, backend.region_name, arn)
        if group is not None:
            elb.register(group, ip=task.ip, port=port, will_be_healthy=healthy)
            if service := backend.service_of(task):
                events.registered(service, arn, 1)


def deregister(backend: "SandboxEcs", task: Task) -> float:
    """Begin to drain a task's targets and return how many seconds that takes."""
    seconds = 0.0
    for arn, _ in task.targets:
        group = elb.find_group(backend.account_id, backend.region_name, arn)
        if group is not None and elb.deregister(group, task.ip):
            seconds = max(seconds, elb.drain_seconds(group))
            if service := backend.service_of(task):
                events.deregistered(service, arn, 1)
                events.draining(service, _deployment_of(service, task), 1)
    return seconds


def _deployment_of(service: Service, task: Task) -> Deployment | None:
    return next((d for d in service.deployments if d.id == task.started_by), None)


def are_healthy(backend: "SandboxEcs", task: Task) -> bool:
    groups = [elb.find_group(backend.account_id, backend.region_name, arn) for arn, _ in task.targets]
    return all(group is not None and elb.state_of(group, task.ip) == "healthy" for group in groups)


def first_unhealthy(backend: "SandboxEcs", task: Task, *, grace: float) -> tuple[str, int] | None:
    """The target group (and port) in which a task failed its checks, once its grace period is over."""
    if task.running_since is None or CLOCK.elapsed - task.running_since < grace:
        return None
    for arn, port in task.targets:
        group = elb.find_group(backend.account_id, backend.region_name, arn)
        if group is not None and elb.state_of(group, task.ip) == "unhealthy":
            return arn, port
    return None
