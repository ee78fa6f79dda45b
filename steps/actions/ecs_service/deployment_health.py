"""Health of an ECS deployment: verdict on one read, fail-fast settings, deadline for a healthy task."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Self

from aws.apis.ecs_types import EcsDeployment, EcsService, EcsTask
from aws.errors import AwsError
from guards.limits import FAIL_FAST_MINUTES, FAIL_FAST_TASKS, STABLE_SECONDS
from steps.actions.base import ActionFailed, BadStepSettingError
from steps.actions.context import StepContext
from steps.actions.ecs_service.diagnosis import HEALTHY_AFTER
from steps.expressions import has_expression


class HealthVerdict(Enum):
    """What one sight of the service says of our deployment."""

    GOING = "going"
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLED_BACK_BY_AWS = "rolled back by AWS"
    # The following may be a stale read and are believed only when they stand.
    MAYBE_NO_TASKS = "the desired count is 0"
    MAYBE_BACK = "the previous deployment is PRIMARY"
    MAYBE_SUPERSEDED = "an unknown deployment is PRIMARY"
    MAYBE_GONE = "the service is gone"


@dataclass(frozen=True)
class OwnDeployment:
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


def evaluate_deployment(service: EcsService | None, ours: OwnDeployment) -> HealthVerdict:
    """Judge one sight of the ECS service.

    Completed means: our id is PRIMARY, its rollout is COMPLETED, the task definition is ours, and as many
    tasks run as are asked for: more than none, unless our own write asked for none. The event text is never
    evidence (T19).
    """
    if service is None or service.status != "ACTIVE" or service.primary is None:
        return HealthVerdict.MAYBE_GONE
    deployment = find_deployment(service, ours.deployment_id)
    if deployment is not None and deployment.rollout_state == "FAILED":
        return _evaluate_failed(service, deployment, ours)
    if service.primary.id == ours.deployment_id:
        return _evaluate_primary(service.primary, ours)
    if service.primary.id == ours.primary_before:
        return HealthVerdict.MAYBE_BACK
    return HealthVerdict.MAYBE_SUPERSEDED


def find_deployment(service: EcsService | None, deployment_id: str) -> EcsDeployment | None:
    """Return the deployment with this id, if the service still shows it."""
    if service is None:
        return None
    return next((d for d in service.deployments if d.id == deployment_id), None)


def has_rollback_breaker(service: EcsService) -> bool:
    """Return whether AWS's own circuit breaker will roll this service back."""
    breaker = service.raw.get("deploymentConfiguration", {}).get("deploymentCircuitBreaker", {})
    return bool(breaker.get("enable") and breaker.get("rollback"))


def _evaluate_failed(service: EcsService, deployment: EcsDeployment, ours: OwnDeployment) -> HealthVerdict:
    if service.primary is not None and service.primary.id != deployment.id:
        return HealthVerdict.ROLLED_BACK_BY_AWS
    # Marked FAILED a moment before AWS makes the old deployment PRIMARY again.
    rolls_back = has_rollback_breaker(service) and bool(ours.primary_before)
    return HealthVerdict.GOING if rolls_back else HealthVerdict.FAILED


def _evaluate_primary(primary: EcsDeployment, ours: OwnDeployment) -> HealthVerdict:
    if primary.task_definition != ours.task_definition:
        return HealthVerdict.GOING
    if primary.desired == 0 and ours.wanted > 0:
        # Nothing runs, so nothing shows that the new version works.
        return HealthVerdict.MAYBE_NO_TASKS
    is_there = primary.running >= primary.desired and primary.rollout_state == "COMPLETED"
    return HealthVerdict.COMPLETED if is_there else HealthVerdict.GOING


def was_rolled_back_by_aws(service: EcsService, ours: OwnDeployment) -> bool:
    """Whether the service says itself that AWS took our deployment back: by a reason, or by a new event.

    AWS writes "... circuit breaker: rolling back to deploymentId ..." and "rolling back to deployment ...".
    """
    reason = service.primary.rollout_state_reason if service.primary is not None else ""
    events = [event.message for event in service.events if event.id not in ours.known_events]
    return any("rolling back to deployment" in text for text in (reason, *events))


def is_verdict_certain(verdict: HealthVerdict, service: EcsService | None, ours: OwnDeployment) -> bool:
    """Return whether a sight cannot be stale: a late copy shows the past, and this has never been before."""
    primary = service.primary if service is not None else None
    if verdict is HealthVerdict.MAYBE_SUPERSEDED and primary is not None:
        return bool(primary.created_at and ours.begun and primary.created_at > ours.begun)
    if verdict is HealthVerdict.MAYBE_NO_TASKS:
        return ours.was_seen
    if verdict is HealthVerdict.MAYBE_GONE and service is not None and not service.is_active:
        # The very service that answered our write, and not an earlier one of its name.
        return bool(ours.service_created) and ours.service_created == str(service.raw.get("createdAt"))
    return False


_WAITING_SINCE_KEY = "without a healthy task since"
_RUNNING_TASKS_KEY = "tasks to see again"


def enforce_health_deadline(
    context: StepContext, service: EcsService, deployment_id: str, minutes: int
) -> None:
    """Fail where no new task is healthy at the end of `minutes`; a healthy one starts the clock anew.

    The clock is kept with the look, so it goes on where a worker has died. Raises `ActionFailed`.
    """
    if not minutes:
        return
    now = context.now()
    since = datetime.fromisoformat(context.progress.setdefault(_WAITING_SINCE_KEY, now.isoformat()))
    if now - since < _compute_wait(context, minutes):
        return
    is_healthy = _has_healthy_task(context, service, deployment_id)
    if is_healthy is None:
        return
    context.progress.pop(_RUNNING_TASKS_KEY, None)
    if is_healthy:
        context.progress[_WAITING_SINCE_KEY] = now.isoformat()
        return
    raise ActionFailed(
        "NO_HEALTHY_TASK",
        f"No task of this deployment was healthy after {minutes} minutes. Check the events and health "
        f"checks, or raise failFast.minutesWithoutHealthyTask of the step.",
    )


def get_health_deadline(context: StepContext, minutes: int) -> datetime | None:
    """Return when to look again however the ECS service looks; None where no clock runs."""
    since = context.progress.get(_WAITING_SINCE_KEY)
    return datetime.fromisoformat(since) + _compute_wait(context, minutes) if minutes and since else None


def _compute_wait(context: StepContext, minutes: int) -> timedelta:
    """Tasks without any health check are seen twice: AWS's clock and ours are not the same."""
    again = HEALTHY_AFTER if _RUNNING_TASKS_KEY in context.progress else timedelta(0)
    return timedelta(minutes=minutes) + again


def _has_healthy_task(context: StepContext, service: EcsService, deployment_id: str) -> bool | None:
    """Whether a new task is healthy; None where that shows only when it is still there a little later."""
    tasks = _list_running_tasks(context, service, deployment_id)
    if any(task.health == "HEALTHY" for task in tasks):
        return True
    unchecked = [task for task in tasks if task.health != "UNHEALTHY"]
    known_well = _list_healthy_addresses(context, service) if unchecked else None
    if known_well is not None:
        return any(_get_private_address(task) in known_well for task in unchecked)
    if _RUNNING_TASKS_KEY in context.progress:
        return any(task.id in context.progress[_RUNNING_TASKS_KEY] for task in unchecked)
    if not unchecked:
        return False
    context.progress[_RUNNING_TASKS_KEY] = [task.id for task in unchecked]
    return None


def _list_running_tasks(context: StepContext, service: EcsService, deployment_id: str) -> list[EcsTask]:
    arns = context.ecs.list_tasks(context.cluster, service=service.name, desired_status="RUNNING")
    tasks = context.ecs.describe_tasks(context.cluster, arns[:100]) if arns else []
    return [task for task in tasks if task.started_by == deployment_id and task.last_status == "RUNNING"]


def _list_healthy_addresses(context: StepContext, service: EcsService) -> set[str] | None:
    """The targets that the load balancer finds healthy; None where there is none, or it may not be asked."""
    groups = [
        one["targetGroupArn"] for one in service.raw.get("loadBalancers", []) if one.get("targetGroupArn")
    ]
    if not groups:
        return None
    try:
        found = [target for group in groups for target in context.elb.list_target_health(group)]
    except AwsError as error:
        context.log(f"{error.display_message} The health of the targets is not known.", "warning")
        return None
    return {target.id for target in found if target.state == "healthy"}


def _get_private_address(task: EcsTask) -> str:
    """Return the private address of a task with a network interface of its own, else nothing."""
    for attachment in task.raw.get("attachments", []):
        for detail in attachment.get("details", []):
            if detail.get("name") == "privateIPv4Address":
                return str(detail.get("value", ""))
    return ""


@dataclass(frozen=True)
class FailFast:
    """What ends a deployment early; the defaults are those of every step that says nothing."""

    failedTasks: int = 3
    """After so many failed tasks of the deployment with none ever healthy; 0 is never."""
    minutesWithoutHealthyTask: int = 0
    """After so many minutes without a healthy new task; 0 is never."""
    onFatalReason: bool = True
    """At the first task that failed for a reason no retry mends, such as an image that does not exist."""
    stableSeconds: int = 10
    """For how long no task may fail after ECS reports a deployment completed, where nothing checks the tasks.

    Not waited for behind a load balancer, and where a container has a health check; 0 is at once.
    """

    @classmethod
    def from_written(cls, values: Mapping[str, Any]) -> Self:
        """Read what a pipeline says under `failFast`; expressions count as right.

        Raises `BadStepSettingError` that names the field.
        """
        if not isinstance(values, Mapping):
            raise BadStepSettingError(f"failFast must be a mapping, not {values!r}", ("failFast",))
        for name in values:
            if name not in cls.__dataclass_fields__:
                known = ", ".join(cls.__dataclass_fields__)
                raise BadStepSettingError(
                    f"failFast has no field {name}; it has {known}", ("failFast", str(name))
                )
        settled = {
            name: value
            for name, value in values.items()
            if not (isinstance(value, str) and has_expression(value))
        }
        for name, most in (
            ("failedTasks", FAIL_FAST_TASKS),
            ("minutesWithoutHealthyTask", FAIL_FAST_MINUTES),
            ("stableSeconds", STABLE_SECONDS),
        ):
            _refuse_bad_number(name, settled.get(name, 0), most)
        fatal = settled.get("onFatalReason", True)
        if not isinstance(fatal, bool):
            place = ("failFast", "onFatalReason")
            raise BadStepSettingError(
                f"onFatalReason of failFast must be true or false, not {fatal!r}", place
            )
        return cls(**settled)


def _refuse_bad_number(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadStepSettingError(
            f"{name} of failFast must be a whole number from 0 to {most}, not {value!r}",
            ("failFast", name),
        )
