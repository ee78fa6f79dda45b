"""What actions share about an ECS service: how it was before, whether it may be touched, its deletion."""

from collections.abc import Mapping
from typing import Any

from aws.types import EcsService
from deployments.actions.base import ActionFailed, Rollout

GONE = ("INACTIVE", "DRAINING")


def service_words(service: EcsService | None) -> str:
    """An ECS service in three words, for a checklist."""
    return (
        "does not exist"
        if service is None
        else f"{service.status}, {service.running}/{service.desired} running"
    )


def existed_before(rollout: Rollout) -> bool:
    """Whether the ECS service was there when the step began."""
    before = rollout.recall("service before")
    return bool(before) and before["status"] not in GONE


def snapshot_of(service: EcsService) -> dict[str, Any]:
    """What a rollback and a diagnosis need of an ECS service as it is now."""
    primary = service.primary
    raw = {key: value for key, value in service.raw.items() if key not in ("events", "deployments")}
    return {
        "name": service.name,
        "arn": service.arn,
        "status": service.status,
        "primary": primary.id if primary else "",
        "task_definition": service.task_definition,
        "desired": service.desired,
        "running": service.running,
        "newest_events": [event.id for event in service.events],
        "raw": raw,
    }


def refuse_foreign_controller(before: Mapping[str, Any]) -> None:
    """Raise `ActionFailed` where something other than ECS's own rolling update deploys a service."""
    raw = before["raw"]
    controller = raw.get("deploymentController", {}).get("type", "ECS")
    strategy = raw.get("deploymentConfiguration", {}).get("strategy", "ROLLING")
    if controller != "ECS" or strategy != "ROLLING" or raw.get("schedulingStrategy", "REPLICA") != "REPLICA":
        raise ActionFailed(
            "CONTROLLER_NOT_SUPPORTED",
            f"Service {before['name']} is deployed by other means in AWS: {controller} controller, "
            f"{strategy} strategy, {raw.get('schedulingStrategy', 'REPLICA')} scheduling. "
            "Deploy it there, or create it anew.",
        )


def delete_service(rollout: Rollout, name: str, live: EcsService | None) -> None:
    """Delete an ECS service with its tasks; one that is gone already is fine."""
    if live is None or live.status in GONE:
        rollout.log(f"Service {name} is gone already")
        return
    rollout.log(f"Deleting service {name}..")
    rollout.ecs.delete_service(rollout.cluster, name, force=True)
