"""How long a deployment may go on without a healthy new task (P03)."""

from datetime import datetime, timedelta

from aws.errors import AwsError
from aws.types import EcsService, EcsTask
from deployments.actions.base import ActionFailed, Rollout
from deployments.actions.diagnosis import HEALTHY_AFTER

_CLOCK = "without a healthy task since"


def watch_patience(rollout: Rollout, service: EcsService, deployment_id: str, minutes: int) -> None:
    """Fail where no new task is healthy at the end of `minutes`; a healthy one starts the clock anew.

    The clock is kept with the look, so it goes on where a worker has died. Raises `ActionFailed`.
    """
    if not minutes:
        return
    now = rollout.now()
    since = datetime.fromisoformat(rollout.progress.setdefault(_CLOCK, now.isoformat()))
    if now - since < timedelta(minutes=minutes):
        return
    if _has_healthy_task(rollout, service, deployment_id):
        rollout.progress[_CLOCK] = now.isoformat()
        return
    raise ActionFailed(
        "NO_HEALTHY_TASK",
        f"No task of this deployment was healthy after {minutes} minutes. Look at the events and at the "
        "health checks, or raise failFast.minutesWithoutHealthyTask of the step.",
    )


def patience_ends(rollout: Rollout, minutes: int) -> datetime | None:
    """When to look again however the ECS service looks; None where no clock runs."""
    since = rollout.progress.get(_CLOCK)
    return datetime.fromisoformat(since) + timedelta(minutes=minutes) if minutes and since else None


def _has_healthy_task(rollout: Rollout, service: EcsService, deployment_id: str) -> bool:
    arns = rollout.ecs.list_tasks(rollout.cluster, service=service.name, desired_status="RUNNING")
    tasks = rollout.ecs.describe_tasks(rollout.cluster, arns[:100]) if arns else []
    candidates = [task for task in tasks if task.started_by == deployment_id and _looks_well(rollout, task)]
    if not candidates:
        return False
    known_well = _healthy_addresses(rollout, service)
    return known_well is None or any(
        not _address(task) or _address(task) in known_well for task in candidates
    )


def _looks_well(rollout: Rollout, task: EcsTask) -> bool:
    """Healthy by its own check; without one, running for longer than tasks that fail at once live."""
    if task.health in ("HEALTHY", "UNHEALTHY"):
        return task.health == "HEALTHY"
    return task.started_at is not None and rollout.now() - task.started_at >= HEALTHY_AFTER


def _healthy_addresses(rollout: Rollout, service: EcsService) -> set[str] | None:
    """The targets that the load balancer finds healthy; None where there is none, or it may not be asked."""
    groups = [
        one["targetGroupArn"] for one in service.raw.get("loadBalancers", []) if one.get("targetGroupArn")
    ]
    if not groups:
        return None
    try:
        found = [target for group in groups for target in rollout.elb.target_health(group)]
    except AwsError as error:
        rollout.log(f"{error.sentence} The health of the targets is not known.", "warning")
        return None
    return {target.id for target in found if target.state == "healthy"}


def _address(task: EcsTask) -> str:
    """The private address of a task with a network interface of its own, else nothing."""
    for attachment in task.raw.get("attachments", []):
        for detail in attachment.get("details", []):
            if detail.get("name") == "privateIPv4Address":
                return str(detail.get("value", ""))
    return ""
