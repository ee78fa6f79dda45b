"""Whether an ECS service is again what it was: one look, and the checklist."""

from collections.abc import Mapping
from typing import Any

from aws.types import EcsService
from steps.actions.base import Check, Rollout
from steps.actions.known_service import GONE, service_words
from steps.actions.timing import wrote_lately


def settled(rollout: Rollout, before: Mapping[str, Any], service: EcsService | None) -> bool:
    """One look at whether the task definition and the running tasks are those from before."""
    if service is None or service.primary is None:
        return False
    if service.primary.task_definition != before["task_definition"] or len(service.deployments) > 1:
        return False
    is_over = service.primary.rollout_state in ("COMPLETED", "", None)
    is_back = is_over and service.running == service.desired == before["desired"]
    if is_back and not wrote_lately(rollout):
        return True
    rollout.rest()
    return False


def service_checks(rollout: Rollout, before: Mapping[str, Any]) -> list[Check]:
    """What the ECS service was, beside what it is."""
    name = before["name"]
    service = rollout.ecs.describe_service(rollout.cluster, name)
    if service is None or service.primary is None or service.status in GONE:
        return [Check(f"Service {name}", before["status"], service_words(service), ok=False)]
    pairs = (
        ("Task definition", before["task_definition"], service.primary.task_definition),
        ("Desired count", before["desired"], service.desired),
        ("Running tasks", before["desired"], service.running),
        ("Deployments under way", 1, len(service.deployments)),
    )
    return [
        Check(f"{what} of Service {name}", str(expected), str(found), expected == found)
        for what, expected, found in pairs
    ]
