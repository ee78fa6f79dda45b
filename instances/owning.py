"""Which service and infrastructure of Slipway an ECS service belongs to: those of its latest execution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from django.db.models import Max

from deployments.models import StageExecution
from instances.models import SyncedCluster


@dataclass(frozen=True)
class Owners:
    """The keys of service and infrastructure by the name of an ECS service."""

    known: Mapping[str, tuple[int | None, int | None]]

    @classmethod
    def of(cls, cluster: SyncedCluster, names: Sequence[str]) -> Self:
        """Two queries for all of these names."""
        stages = StageExecution.objects.filter(
            connector=cluster.connector_id,
            region=cluster.region,
            cluster=cluster.cluster,
            ecs_service__in=names,
        )
        latest = stages.values("ecs_service").annotate(latest=Max("pk")).values_list("latest", flat=True)
        rows = StageExecution.objects.filter(pk__in=list(latest))
        fields = ("ecs_service", "service", "infrastructure")
        return cls({name: (service, infra) for name, service, infra in rows.values_list(*fields)})

    def owner_of(self, name: str) -> tuple[int | None, int | None]:
        return self.known.get(name, (None, None))
