"""How one sight of an ECS service is judged: is our deployment done, still going, or over (DESIGN 5, P01)."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from aws.types import Deployment, EcsService


class Verdict(Enum):
    """What one sight of the service says of our deployment."""

    GOING = "going"
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLED_BACK_BY_AWS = "rolled back by AWS"
    # The following may be a stale read and are believed only when they stand.
    MAYBE_NO_TASKS = "nothing is to run any more"
    MAYBE_BACK = "the deployment from before is PRIMARY"
    MAYBE_SUPERSEDED = "an unknown deployment is PRIMARY"
    MAYBE_GONE = "the service is gone"


@dataclass(frozen=True)
class Ours:
    """What is known of our deployment before looking."""

    deployment_id: str
    task_definition: str
    primary_before: str
    was_seen: bool
    wanted: int
    """The count that our write asked for."""
    begun: datetime | None = None
    """When AWS says that our deployment began."""
    service_created: str = ""
    """When AWS made the service that answered our write."""
    known_events: frozenset[str] = frozenset()
    """The ids of the events that were there before our write."""


def judge(service: EcsService | None, ours: Ours) -> Verdict:
    """Judge one sight of the ECS service.

    Completed means: our id is PRIMARY, its rollout is COMPLETED, the task definition is ours, and as many
    tasks run as are asked for: more than none, unless our own write asked for none. The event text is never
    evidence (T19).
    """
    if service is None or service.status != "ACTIVE" or service.primary is None:
        return Verdict.MAYBE_GONE
    deployment = find(service, ours.deployment_id)
    if deployment is not None and deployment.rollout_state == "FAILED":
        return _judge_failed(service, deployment, ours)
    if service.primary.id == ours.deployment_id:
        return _judge_primary(service.primary, ours)
    if service.primary.id == ours.primary_before:
        return Verdict.MAYBE_BACK
    return Verdict.MAYBE_SUPERSEDED


def find(service: EcsService | None, deployment_id: str) -> Deployment | None:
    """The deployment with this id, if the service still shows it."""
    if service is None:
        return None
    return next((d for d in service.deployments if d.id == deployment_id), None)


def has_rollback_breaker(service: EcsService) -> bool:
    """Whether AWS's own circuit breaker will roll this service back."""
    breaker = service.raw.get("deploymentConfiguration", {}).get("deploymentCircuitBreaker", {})
    return bool(breaker.get("enable") and breaker.get("rollback"))


def _judge_failed(service: EcsService, deployment: Deployment, ours: Ours) -> Verdict:
    if service.primary is not None and service.primary.id != deployment.id:
        return Verdict.ROLLED_BACK_BY_AWS
    # Marked FAILED a moment before AWS makes the old deployment PRIMARY again.
    rolls_back = has_rollback_breaker(service) and bool(ours.primary_before)
    return Verdict.GOING if rolls_back else Verdict.FAILED


def _judge_primary(primary: Deployment, ours: Ours) -> Verdict:
    if primary.task_definition != ours.task_definition:
        return Verdict.GOING
    if primary.desired == 0 and ours.wanted > 0:
        # Nothing runs, so nothing shows that the new version works.
        return Verdict.MAYBE_NO_TASKS
    is_there = primary.running >= primary.desired and primary.rollout_state == "COMPLETED"
    return Verdict.COMPLETED if is_there else Verdict.GOING


def was_rolled_back_by_aws(service: EcsService, ours: Ours) -> bool:
    """Whether the service says itself that AWS took our deployment back: by a reason, or by a new event.

    AWS writes "... circuit breaker: rolling back to deploymentId ..." and "rolling back to deployment ...".
    """
    reason = service.primary.rollout_state_reason if service.primary is not None else ""
    events = [event.message for event in service.events if event.id not in ours.known_events]
    return any("rolling back to deployment" in text for text in (reason, *events))


def is_certain(verdict: Verdict, service: EcsService | None, ours: Ours) -> bool:
    """Whether a sight cannot be stale: a late copy shows the past, and this has never been before."""
    primary = service.primary if service is not None else None
    if verdict is Verdict.MAYBE_SUPERSEDED and primary is not None:
        return bool(primary.created_at and ours.begun and primary.created_at > ours.begun)
    if verdict is Verdict.MAYBE_NO_TASKS:
        return ours.was_seen
    if verdict is Verdict.MAYBE_GONE and service is not None and not service.is_active:
        # The very service that answered our write, and not an earlier one of its name.
        return bool(ours.service_created) and ours.service_created == str(service.raw.get("createdAt"))
    return False
