"""How long a deployment may go on without a healthy new task (P03)."""

from datetime import datetime, timedelta

from aws.errors import AwsError
from aws.types import EcsService, EcsTask
from steps.actions.base import ActionFailed, Rollout
from steps.actions.diagnosis import HEALTHY_AFTER

_CLOCK = "without a healthy task since"
_RUNNING = "tasks to see again"


def watch_patience(rollout: Rollout, service: EcsService, deployment_id: str, minutes: int) -> None:
    """Fail where no new task is healthy at the end of `minutes`; a healthy one starts the clock anew.

    The clock is kept with the look, so it goes on where a worker has died. Raises `ActionFailed`.
    """
    if not minutes:
        return
    now = rollout.now()
    since = datetime.fromisoformat(rollout.progress.setdefault(_CLOCK, now.isoformat()))
    if now - since < _patience(rollout, minutes):
        return
    is_healthy = _has_healthy_task(rollout, service, deployment_id)
    if is_healthy is None:
        return
    rollout.progress.pop(_RUNNING, None)
    if is_healthy:
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
    return datetime.fromisoformat(since) + _patience(rollout, minutes) if minutes and since else None


def _patience(rollout: Rollout, minutes: int) -> timedelta:
    """Tasks without any health check are seen twice: AWS's clock and ours are not the same."""
    again = HEALTHY_AFTER if _RUNNING in rollout.progress else timedelta(0)
    return timedelta(minutes=minutes) + again


def _has_healthy_task(rollout: Rollout, service: EcsService, deployment_id: str) -> bool | None:
    """Whether a new task is healthy; None where that shows only when it is still there a little later."""
    tasks = _running_tasks(rollout, service, deployment_id)
    if any(task.health == "HEALTHY" for task in tasks):
        return True
    unchecked = [task for task in tasks if task.health != "UNHEALTHY"]
    known_well = _healthy_addresses(rollout, service) if unchecked else None
    if known_well is not None:
        return any(_address(task) in known_well for task in unchecked)
    if _RUNNING in rollout.progress:
        return any(task.id in rollout.progress[_RUNNING] for task in unchecked)
    if not unchecked:
        return False
    rollout.progress[_RUNNING] = [task.id for task in unchecked]
    return None


def _running_tasks(rollout: Rollout, service: EcsService, deployment_id: str) -> list[EcsTask]:
    arns = rollout.ecs.list_tasks(rollout.cluster, service=service.name, desired_status="RUNNING")
    tasks = rollout.ecs.describe_tasks(rollout.cluster, arns[:100]) if arns else []
    return [task for task in tasks if task.started_by == deployment_id and task.last_status == "RUNNING"]


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
