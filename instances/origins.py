"""Who or what started an ECS task: an execution, ECS in the place of another, or somebody outside Slipway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from deployments.models import StageExecution
from instances.models import ServiceInstance, SyncedCluster
from instances.told import Told

Origin = ServiceInstance.Origin
# Clocks differ, and ECS goes on a while after a deployment is over.
GRACE = timedelta(minutes=1)


@dataclass(frozen=True)
class Origins:
    """The executions by the deployments of ECS that they made; read once for a page of tasks."""

    made: Mapping[str, tuple[UUID, datetime | None]]

    @classmethod
    def of(cls, cluster: SyncedCluster, tasks: Sequence[Told]) -> Self:
        """One query for all of these tasks."""
        deployments = {name for one in tasks if (name := one.text("startedBy"))}
        stages = StageExecution.objects.filter(
            deployment_id__in=deployments, connector=cluster.connector_id, region=cluster.region
        )
        rows = stages.order_by("pk").values_list("deployment_id", "execution", "execution__ended_at")
        return cls({deployment: (execution, ended) for deployment, execution, ended in rows})

    def origin_of(self, task: Told) -> tuple[str, UUID | None]:
        """The origin, and the execution whose deployment the task is of."""
        found = self.made.get(task.text("startedBy"))
        if found is None:
            return Origin.OUTSIDE, None
        execution, ended = found
        created = task.moment("createdAt")
        is_later = ended is not None and created is not None and created > ended + GRACE
        return (Origin.REPLACED if is_later else Origin.EXECUTION), execution
