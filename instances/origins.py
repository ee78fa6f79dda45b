"""Who or what started an ECS task: an execution, ECS in the place of another, or somebody outside Slipway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from aws.types import EcsTask
from deployments.models import StageExecution
from instances.models import ServiceInstance, SyncedCluster

Origin = ServiceInstance.Origin
# Clocks differ, and ECS goes on a while after a deployment is over.
GRACE = timedelta(minutes=1)


@dataclass(frozen=True)
class Origins:
    """The executions by the deployments of ECS that they made; read once for a page of tasks."""

    made: Mapping[str, tuple[UUID, datetime | None]]

    @classmethod
    def of(cls, cluster: SyncedCluster, tasks: Sequence[EcsTask]) -> Self:
        """One query for all of these tasks."""
        deployments = {one.started_by for one in tasks if one.started_by}
        stages = StageExecution.objects.filter(
            deployment_id__in=deployments, connector=cluster.connector_id, region=cluster.region
        )
        rows = stages.order_by("pk").values_list("deployment_id", "execution", "execution__ended_at")
        return cls({deployment: (execution, ended) for deployment, execution, ended in rows})

    def origin_of(self, task: EcsTask) -> tuple[str, UUID | None]:
        """The origin, and the execution whose deployment the task is of."""
        found = self.made.get(task.started_by)
        if found is None:
            return Origin.OUTSIDE, None
        execution, ended = found
        is_later = ended is not None and task.created_at is not None and task.created_at > ended + GRACE
        return (Origin.REPLACED if is_later else Origin.EXECUTION), execution
