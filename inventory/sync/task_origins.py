"""Origins of ECS tasks: an execution, replacement by ECS, auto scaling, or outside Slipway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from django.db.models import Q

from deployments.models import Execution, StageExecution, StepExecution
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync.column_values import clean_text
from inventory.sync.ecs_payloads import MAX_SERVICE_NAME_LENGTH, AwsPayload
from inventory.sync.owners import list_lock_keys

Origin = ServiceInstance.Origin
# Clocks differ, and ECS starts tasks for a while after a deployment.
CLOCK_TOLERANCE = timedelta(minutes=1)
_ExecutionsByDeployment = dict[str, tuple[UUID, datetime | None]]


@dataclass(frozen=True)
class TaskOrigins:
    """The executions by ECS deployment; loaded once for a page of tasks."""

    executions: Mapping[str, tuple[UUID, datetime | None]]

    @classmethod
    def of(cls, cluster: SyncedCluster, tasks: Sequence[AwsPayload]) -> Self:
        """Load the executions of these tasks in three queries at most."""
        started = {name for task in tasks if (name := task.text("startedBy"))}
        executions = {
            **_read_step_deployments(cluster, tasks, started),
            **_read_stage_deployments(cluster, started),
        }
        return cls({**executions, **_read_run_tasks(started - executions.keys())})

    def get_origin(self, task: AwsPayload) -> tuple[str, UUID | None]:
        """Return the origin of a task, and the execution that deployed it."""
        entry = self.executions.get(task.text("startedBy"))
        if entry is None:
            return Origin.OUTSIDE, None
        execution, ended_at = entry
        created = task.moment("createdAt")
        is_later = ended_at is not None and created is not None and created > ended_at + CLOCK_TOLERANCE
        return (Origin.REPLACED if is_later else Origin.EXECUTION), execution


def _read_stage_deployments(cluster: SyncedCluster, started: set[str]) -> _ExecutionsByDeployment:
    stages = StageExecution.objects.filter(
        deployment_id__in=started, connector=cluster.connector_id, region=cluster.region
    )
    rows = stages.order_by("pk").values_list("deployment_id", "execution", "execution__ended_at")
    return {deployment: (execution, ended) for deployment, execution, ended in rows}


def _read_step_deployments(
    cluster: SyncedCluster, tasks: Sequence[AwsPayload], started: set[str]
) -> _ExecutionsByDeployment:
    """Return the deployments of steps in branches and of rollbacks."""
    keys = list_lock_keys(cluster, {name for task in tasks if (name := parse_service_name(task))})
    by_deployment = Q(outputs__deploymentId__in=started) | Q(outputs__rollbackDeploymentId__in=started)
    steps = StepExecution.objects.filter(
        by_deployment, claims__key__in=keys, stage__connector=cluster.connector_id
    )
    rows = list(
        steps.order_by("pk").values_list(
            "outputs__deploymentId",
            "outputs__rollbackDeploymentId",
            "stage__execution",
            "stage__execution__ended_at",
        )
    )
    # A rollback that only set a count reuses the deployment of an earlier execution.
    back = {returned: (execution, ended) for _, returned, execution, ended in rows}
    return {**back, **{deployed: (execution, ended) for deployed, _, execution, ended in rows}}


def _read_run_tasks(started: set[str]) -> _ExecutionsByDeployment:
    """Return the executions of tasks that a step ran; ECS never replaces them."""
    keys = {key for text in started if (key := _parse_uuid(text)) is not None}
    rows = Execution.objects.filter(pk__in=keys) if keys else Execution.objects.none()
    return {str(pk): (pk, None) for pk in rows.values_list("pk", flat=True)}


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def parse_service_name(task: AwsPayload) -> str:
    """Return the ECS service of a task; empty for a task without one."""
    group = task.raw.get("group")
    if not isinstance(group, str) or not group.startswith("service:"):
        return ""
    return clean_text(group.removeprefix("service:"), MAX_SERVICE_NAME_LENGTH)
