"""How one sight of an ECS service is judged: is our deployment done, still going, or over (DESIGN 5, P01)."""

from dataclasses import dataclass
from enum import Enum

from aws.types import Deployment, EcsService


class Verdict(Enum):
    """What one sight of the service says of our deployment."""

    GOING = "going"
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLED_BACK_BY_AWS = "rolled back by AWS"
    # The following may be a stale read and are believed only when they stand.
    MAYBE_ROLLED_BACK = "the deployment from before is PRIMARY"
    MAYBE_SUPERSEDED = "an unknown deployment is PRIMARY"
    MAYBE_GONE = "the service is gone"


@dataclass(frozen=True)
class Ours:
    """What is known of our deployment before looking."""

    deployment_id: str
    task_definition: str
    primary_before: str
    was_seen: bool


def judge(service: EcsService | None, ours: Ours) -> Verdict:
    """Judge one sight of the ECS service.

    Completed means: our id is PRIMARY, its rollout is COMPLETED, the task definition is ours and
    running >= wanted > 0, or nothing was wanted on purpose. The event text is never evidence (T19).
    """
    if service is None or service.status != "ACTIVE" or service.primary is None:
        return Verdict.MAYBE_GONE
    deployment = find(service, ours.deployment_id)
    if deployment is not None and deployment.rollout_state == "FAILED":
        return _judge_failed(service, deployment, ours)
    if service.primary.id == ours.deployment_id:
        return Verdict.COMPLETED if _is_completed(service.primary, ours) else Verdict.GOING
    if service.primary.id == ours.primary_before:
        return Verdict.MAYBE_ROLLED_BACK
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


def _is_completed(primary: Deployment, ours: Ours) -> bool:
    if primary.task_definition != ours.task_definition or primary.running < primary.desired:
        return False
    return primary.rollout_state == "COMPLETED"
