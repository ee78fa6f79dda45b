"""Back to the last completed deployment: because the circuit breaker tripped, or because somebody asked."""

from typing import TYPE_CHECKING

from sandbox.clock import CLOCK
from sandbox.ecs import events
from sandbox.ecs.deployments import CONFIGURED
from sandbox.ecs.errors import InvalidParameter, NothingToStop, ServiceDeploymentNotFound
from sandbox.ecs.records import Deployment, Service, ServiceDeployment
from sandbox.journal import changed_nothing

if TYPE_CHECKING:
    from sandbox.ecs.backend import SandboxEcs

UNDERWAY = ("PENDING", "IN_PROGRESS")
ALREADY = ("ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS")
BY_BREAKER = "Service deployment rolled back because the circuit breaker threshold was exceeded."
BY_REQUEST = "Service deployment rolled back because StopServiceDeployment was called."


def request(backend: "SandboxEcs", arn: str, kind: str) -> str:
    """Ask for the rollback of a service deployment, which the scheduler begins soon after.

    Raises ServiceDeploymentNotFound, InvalidParameter for another kind of stop, and NothingToStop for one
    that has ended. Source: ECS developer guide, stopping service deployments.
    """
    if kind != "ROLLBACK":
        raise InvalidParameter("The stopType should be ROLLBACK.")
    for service in backend.services.values():
        for record in service.history:
            if record.service_deployment_arn == arn:
                _request(service, record)
                return arn
    raise ServiceDeploymentNotFound


def _request(service: Service, record: ServiceDeployment) -> None:
    if record.status in ALREADY:
        changed_nothing()
        return
    target = service.last_completed
    if record.status not in UNDERWAY or target is None:
        raise NothingToStop(record.status)
    record.status = "ROLLBACK_REQUESTED"
    record.status_reason = BY_REQUEST
    record.updated_at = CLOCK.now()
    service.look_at = 0.0


def carry_out(service: Service, primary: Deployment) -> bool:
    """Begin the rollback that somebody asked for; True if there was one."""
    target = service.last_completed
    if target is None or not any(d.status == "ROLLBACK_REQUESTED" for d in service.history):
        return False
    primary.rollout_state = "FAILED"
    primary.rollout_state_reason = f"ECS deployment {primary.id} was stopped."
    primary.updated_at = CLOCK.now()
    take_up(service, primary, target, reason=BY_REQUEST)
    target.rollout_state_reason = f"ECS deployment {target.id} in progress."
    return True


def take_up(service: Service, failed: Deployment, target: Deployment, *, reason: str) -> None:
    """Make an earlier deployment the primary one again, under its old id."""
    events.rolling_back(service, target)
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
    for name in CONFIGURED:
        setattr(service, name, getattr(target, name))
    _note(service, target, reason)


def _note(service: Service, target: Deployment, reason: str) -> None:
    open_ones = (d for d in service.history if d.status in (*UNDERWAY, "ROLLBACK_REQUESTED"))
    record = next(open_ones, None)
    if record is None or target.id not in service.revisions:
        return
    record.status = "ROLLBACK_IN_PROGRESS"
    record.rollback = {
        "reason": reason,
        "startedAt": CLOCK.now(),
        "serviceRevisionArn": service.revisions[target.id].service_revision_arn,
    }
