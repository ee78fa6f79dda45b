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
from steps.actions.ecs_service.daemons import is_daemon
from steps.actions.ecs_service.diagnosis import HEALTHY_AFTER
from steps.expressions import has_expression


class HealthVerdict(Enum):
    """Verdict on our deployment after one read of the service."""

    GOING = "going"
    COMPLETED = "completed"
    FAILED = "failed"
    ROLLED_BACK_BY_AWS = "rolled back by AWS"
    # The following may be a stale read or pass, and count only when observed twice.
    MAYBE_FAILED = "the failed deployment is PRIMARY"
    MAYBE_NO_TASKS = "the desired count is 0"
    MAYBE_BACK = "the previous deployment is PRIMARY"
    MAYBE_SUPERSEDED = "an unknown deployment is PRIMARY"
    MAYBE_GONE = "the service is gone"


@dataclass(frozen=True)
class OwnDeployment:
    """Facts about our deployment from before the read."""

    deployment_id: str
    task_definition: str
    primary_before: str
    was_observed: bool
    desired_count: int
    """Count that our write requested."""
    started_at: datetime | None = None
    """Time at which AWS created our deployment."""
    service_created: str = ""
    """Time at which AWS created the service, from the answer to our write."""
    known_events: frozenset[str] = frozenset()
    """Ids of the service events from before our write."""


def evaluate_deployment(service: EcsService | None, own_deployment: OwnDeployment) -> HealthVerdict:
    """Return the verdict on one read of the ECS service.

    COMPLETED means: our id is PRIMARY, its rollout is COMPLETED (without a state: no other deployment is
    left), the task definition is ours, and the desired tasks run: at least one, unless our own write
    requested none. The event text is never evidence (T19).
    """
    if service is None or service.status != "ACTIVE" or service.primary is None:
        return HealthVerdict.MAYBE_GONE
    deployment = find_deployment(service, own_deployment.deployment_id)
    if deployment is not None and deployment.rollout_state == "FAILED":
        return _evaluate_failed(service, deployment, own_deployment)
    if service.primary.id == own_deployment.deployment_id:
        return _evaluate_primary(service, service.primary, own_deployment)
    if service.primary.id == own_deployment.primary_before:
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


def _rolls_back(service: EcsService, failed: EcsDeployment) -> bool:
    """Return whether AWS rolls back a failed deployment; circuit breaker and alarms each have a setting."""
    if "circuit breaker" in failed.rollout_state_reason:
        return has_rollback_breaker(service)
    alarms = service.raw.get("deploymentConfiguration", {}).get("alarms") or {}
    return bool(alarms.get("enable") and alarms.get("rollback")) or has_rollback_breaker(service)


def _evaluate_failed(
    service: EcsService, deployment: EcsDeployment, own_deployment: OwnDeployment
) -> HealthVerdict:
    if service.primary is not None and service.primary.id != deployment.id:
        return HealthVerdict.ROLLED_BACK_BY_AWS
    if not own_deployment.primary_before or not _rolls_back(service, deployment):
        return HealthVerdict.FAILED
    if was_rolled_back_by_aws(service, own_deployment):
        return HealthVerdict.GOING
    # Marked FAILED a moment before AWS makes the old deployment PRIMARY again, unless none ever completed.
    return HealthVerdict.MAYBE_FAILED


def _evaluate_primary(
    service: EcsService, primary: EcsDeployment, own_deployment: OwnDeployment
) -> HealthVerdict:
    if primary.task_definition != own_deployment.task_definition:
        return HealthVerdict.GOING
    is_completed = _is_rollout_completed(service, primary, own_deployment)
    # ECS counts the instances of a DAEMON service after our write.
    expects_tasks = is_completed if is_daemon(service.raw) else own_deployment.desired_count > 0
    if primary.desired == 0 and expects_tasks:
        # Nothing runs, so nothing shows that the new version works.
        return HealthVerdict.MAYBE_NO_TASKS
    is_complete = primary.running >= primary.desired and is_completed
    return HealthVerdict.COMPLETED if is_complete else HealthVerdict.GOING


def _is_rollout_completed(service: EcsService, primary: EcsDeployment, own_deployment: OwnDeployment) -> bool:
    if primary.rollout_state:
        return primary.rollout_state == "COMPLETED"
    # AWS returns no rolloutState behind a Classic Load Balancer (ECS API, Deployment).
    has_none_requested = own_deployment.desired_count == 0 and not is_daemon(service.raw)
    is_alone = len(service.deployments) == 1 and not primary.pending
    return is_alone and primary.running >= primary.desired and (primary.desired > 0 or has_none_requested)


def was_rolled_back_by_aws(service: EcsService, own_deployment: OwnDeployment) -> bool:
    """Return whether AWS states that it rolled our deployment back, in a reason or a new event.

    AWS writes "... circuit breaker: rolling back to deploymentId ..." and "rolling back to deployment ...".
    """
    reason = service.primary.rollout_state_reason if service.primary is not None else ""
    events = [event.message for event in service.events if event.id not in own_deployment.known_events]
    return any("rolling back to deployment" in text for text in (reason, *events))


def is_verdict_certain(
    verdict: HealthVerdict, service: EcsService | None, own_deployment: OwnDeployment
) -> bool:
    """Return whether a read cannot be stale: stale reads show the past, and this state is new."""
    primary = service.primary if service is not None else None
    if verdict is HealthVerdict.MAYBE_SUPERSEDED and primary is not None:
        return bool(
            primary.created_at
            and own_deployment.started_at
            and primary.created_at > own_deployment.started_at
        )
    if verdict is HealthVerdict.MAYBE_NO_TASKS:
        return own_deployment.was_observed and service is not None and not is_daemon(service.raw)
    if verdict is HealthVerdict.MAYBE_GONE and service is not None and not service.is_active:
        # The service that answered our write, and not an earlier one of the same name.
        return bool(own_deployment.service_created) and own_deployment.service_created == str(
            service.raw.get("createdAt")
        )
    return False


_WAITING_SINCE_KEY = "without a healthy task since"
_RUNNING_TASKS_KEY = "tasks to see again"


def enforce_health_deadline(
    context: StepContext, service: EcsService, deployment_id: str, minutes: int
) -> None:
    """Fail if no new task is healthy after `minutes`; a healthy one restarts the clock.

    The start of the clock is saved with the check, so it survives a crash of the worker. Raises
    `ActionFailed`.
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
    """Return the time of the next check even without a change; None while no clock runs."""
    since = context.progress.get(_WAITING_SINCE_KEY)
    return datetime.fromisoformat(since) + _compute_wait(context, minutes) if minutes and since else None


def _compute_wait(context: StepContext, minutes: int) -> timedelta:
    """Return the wait; tasks without a health check are read twice, as AWS's clock and ours may differ."""
    recheck = HEALTHY_AFTER if _RUNNING_TASKS_KEY in context.progress else timedelta(0)
    return timedelta(minutes=minutes) + recheck


def _has_healthy_task(context: StepContext, service: EcsService, deployment_id: str) -> bool | None:
    """Return whether a new task is healthy; None if only its survival can show that a little later."""
    tasks = _list_running_tasks(context, service, deployment_id)
    if any(task.health == "HEALTHY" for task in tasks):
        return True
    unchecked = [task for task in tasks if task.health != "UNHEALTHY"]
    healthy_addresses = _list_healthy_addresses(context, service) if unchecked else None
    if healthy_addresses is not None:
        if any(healthy_addresses.intersection(task.list_addresses()) for task in unchecked):
            return True
        # A port of its instance is the target of a task without an address.
        unchecked = [task for task in unchecked if not task.list_addresses()]
    if _RUNNING_TASKS_KEY in context.progress:
        return any(task.id in context.progress[_RUNNING_TASKS_KEY] for task in unchecked)
    if not unchecked:
        return False
    context.progress[_RUNNING_TASKS_KEY] = [task.id for task in unchecked]
    return None


def _list_running_tasks(context: StepContext, service: EcsService, deployment_id: str) -> list[EcsTask]:
    arns = context.ecs.list_tasks(context.cluster, service=service.name, desired_status="RUNNING")
    tasks = context.ecs.describe_tasks(context.cluster, arns)
    return [task for task in tasks if task.started_by == deployment_id and task.last_status == "RUNNING"]


def _list_healthy_addresses(context: StepContext, service: EcsService) -> set[str] | None:
    """Return the healthy targets of the load balancer; None without one, or if access is denied."""
    groups = [
        balancer["targetGroupArn"]
        for balancer in service.raw.get("loadBalancers", [])
        if balancer.get("targetGroupArn")
    ]
    if not groups:
        return None
    try:
        targets = [target for group in groups for target in context.elb.list_target_health(group)]
    except AwsError as error:
        context.log(f"{error.display_message} The health of the targets is not known.", "warning")
        return None
    return {target.id for target in targets if target.state == "healthy"}


@dataclass(frozen=True)
class FailFast:
    """Conditions that end a deployment early, with the defaults of every step."""

    failedTasks: int = 3
    """Number of failed tasks, with none ever healthy, that ends it; 0 is never."""
    minutesWithoutHealthyTask: int = 0
    """Minutes without a healthy new task that end it; 0 is never."""
    onFatalReason: bool = True
    """Whether a reason that no retry can fix ends it, such as an image that does not exist."""
    stableSeconds: int = 10
    """Seconds without a failed task after ECS reports completion, for tasks without any health check.

    Skipped behind a load balancer or with a container health check; 0 is never.
    """

    @classmethod
    def from_document(cls, values: Mapping[str, Any]) -> Self:
        """Parse `failFast` of a pipeline; expressions are accepted.

        Raises `BadStepSettingError` that names the field.
        """
        if not isinstance(values, Mapping):
            raise BadStepSettingError(f"failFast must be a mapping, not {values!r}", ("failFast",))
        for name in values:
            if name not in cls.__dataclass_fields__:
                names = ", ".join(cls.__dataclass_fields__)
                raise BadStepSettingError(
                    f"failFast has no field {name}; it has {names}", ("failFast", str(name))
                )
        literals = {
            name: value
            for name, value in values.items()
            if not (isinstance(value, str) and has_expression(value))
        }
        for name, most in (
            ("failedTasks", FAIL_FAST_TASKS),
            ("minutesWithoutHealthyTask", FAIL_FAST_MINUTES),
            ("stableSeconds", STABLE_SECONDS),
        ):
            _refuse_bad_number(name, literals.get(name, 0), most)
        fatal = literals.get("onFatalReason", True)
        if not isinstance(fatal, bool):
            path = ("failFast", "onFatalReason")
            raise BadStepSettingError(f"onFatalReason of failFast must be true or false, not {fatal!r}", path)
        return cls(**literals)


def _refuse_bad_number(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadStepSettingError(
            f"{name} of failFast must be a whole number from 0 to {most}, not {value!r}",
            ("failFast", name),
        )
