"""Who or what started an ECS task: an execution, ECS in the place of another, or somebody outside Slipway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from django.db.models import Q

from deployments.models import Execution, StageExecution, StepExecution
from inventory.models.instances import ServiceInstance, SyncedCluster
from inventory.sync.columns import text
from inventory.sync.owning import keys_of
from inventory.sync.told import LONGEST_NAME, Told

Origin = ServiceInstance.Origin
# Clocks differ, and ECS goes on a while after a deployment is over.
GRACE = timedelta(minutes=1)
_Made = dict[str, tuple[UUID, datetime | None]]


@dataclass(frozen=True)
class Origins:
    """The executions by the deployments of ECS that they made; read once for a page of tasks."""

    made: Mapping[str, tuple[UUID, datetime | None]]

    @classmethod
    def of(cls, cluster: SyncedCluster, tasks: Sequence[Told]) -> Self:
        """Three queries at most for all of these tasks."""
        started = {name for one in tasks if (name := one.text("startedBy"))}
        made = {**_by_steps(cluster, tasks, started), **_by_stages(cluster, started)}
        return cls({**made, **_by_runs(started - made.keys())})

    def origin_of(self, task: Told) -> tuple[str, UUID | None]:
        """The origin, and the execution whose deployment the task is of."""
        found = self.made.get(task.text("startedBy"))
        if found is None:
            return Origin.OUTSIDE, None
        execution, ended = found
        created = task.moment("createdAt")
        is_later = ended is not None and created is not None and created > ended + GRACE
        return (Origin.REPLACED if is_later else Origin.EXECUTION), execution


def _by_stages(cluster: SyncedCluster, started: set[str]) -> _Made:
    stages = StageExecution.objects.filter(
        deployment_id__in=started, connector=cluster.connector_id, region=cluster.region
    )
    rows = stages.order_by("pk").values_list("deployment_id", "execution", "execution__ended_at")
    return {deployment: (execution, ended) for deployment, execution, ended in rows}


def _by_steps(cluster: SyncedCluster, tasks: Sequence[Told], started: set[str]) -> _Made:
    """Deployments of steps in branches, whose stage tells that of its main one only; and of rollbacks."""
    keys = keys_of(cluster, {name for one in tasks if (name := service_of(one))})
    made = Q(outputs__deploymentId__in=started) | Q(outputs__rollbackDeploymentId__in=started)
    steps = StepExecution.objects.filter(made, claims__key__in=keys, stage__connector=cluster.connector_id)
    rows = list(
        steps.order_by("pk").values_list(
            "outputs__deploymentId",
            "outputs__rollbackDeploymentId",
            "stage__execution",
            "stage__execution__ended_at",
        )
    )
    # A rollback that only set a count goes on with the deployment of an earlier execution.
    back = {returned: (execution, ended) for _, returned, execution, ended in rows}
    return {**back, **{deployed: (execution, ended) for deployed, _, execution, ended in rows}}


def _by_runs(started: set[str]) -> _Made:
    """Tasks that a step ran by themselves carry the key of their execution, and are never replaced."""
    keys = {key for one in started if (key := _uuid(one)) is not None}
    rows = Execution.objects.filter(pk__in=keys) if keys else Execution.objects.none()
    return {str(pk): (pk, None) for pk in rows.values_list("pk", flat=True)}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def service_of(task: Told) -> str:
    """The name of the ECS service that a task belongs to; empty for one that was run by itself."""
    group = task.raw.get("group")
    if not isinstance(group, str) or not group.startswith("service:"):
        return ""
    return text(group.removeprefix("service:"), LONGEST_NAME)
