"""Which service and infrastructure of Slipway an ECS service belongs to: those of who changed it last.

Whoever only named it, and was refused or failed before it changed anything, does not own it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from django.db.models import Exists, Max, OuterRef, Q

from deployments.engine.shared import slot_key
from deployments.models import Call, SlotClaim, StageExecution
from inventory.models.instances import SyncedCluster
from steps.states import CallState

WRITES = ("CreateService", "UpdateService", "DeleteService")
Known = Mapping[str, tuple[int | None, int | None]]
Source = Callable[[SyncedCluster, Sequence[str]], Known]
_further: list[Source] = []


def also_owned(source: Source) -> None:
    """Ask `source` too about ECS services that no execution has deployed under their names."""
    _further.append(source)


def keys_of(cluster: SyncedCluster, names: Iterable[str]) -> dict[str, str]:
    """How steps claim these ECS services, with the name of each; empty while the account is unknown."""
    place = StageExecution(account=cluster.account, region=cluster.region, cluster=cluster.cluster)
    return {slot_key(place, name): name for name in names} if cluster.account else {}


@dataclass(frozen=True)
class Owners:
    """The keys of service and infrastructure by the name of an ECS service."""

    known: Known

    @classmethod
    def of(cls, cluster: SyncedCluster, names: Sequence[str]) -> Self:
        """Four queries for all, since a step may change another ECS service, and those of further sources."""
        latest: dict[str, int] = {}
        for found in (_main(cluster, names), _claimed(cluster, names)):
            for name, stage in found.items():
                latest[name] = max(stage, latest.get(name, 0))
        rows = StageExecution.objects.filter(pk__in=set(latest.values()))
        owners = {
            pk: (service, infra) for pk, service, infra in rows.values_list("pk", "service", "infrastructure")
        }
        known: Known = {name: owners[stage] for name, stage in latest.items() if stage in owners}
        others = [name for name in names if name not in known]
        for source in _further if others else ():
            known = {**source(cluster, others), **known}
        return cls(known)

    def owner_of(self, name: str) -> tuple[int | None, int | None]:
        return self.known.get(name, (None, None))


def _wrote(stage: str) -> Exists:
    """Whether a stage has changed ECS services; `stage` leads to it from the row that is asked about."""
    calls = Call.objects.filter(service="ecs", operation__in=WRITES, state=CallState.ANSWERED)
    return Exists(calls.filter(step__stage=OuterRef(stage)))


def _main(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, int]:
    """The latest stages by the ECS service that each is about."""
    stages = StageExecution.objects.filter(
        connector=cluster.connector_id,
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=names,
    ).filter(~Q(deployment_id="") | Q(_wrote("pk")))
    return dict(stages.values("ecs_service").annotate(latest=Max("pk")).values_list("ecs_service", "latest"))


def _claimed(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, int]:
    """The latest stages by the ECS services that their steps held."""
    keys = keys_of(cluster, names)
    claims = SlotClaim.objects.filter(
        _wrote("stage"), key__in=keys, held_at__isnull=False, stage__connector=cluster.connector_id
    )
    rows = claims.values("key").annotate(latest=Max("stage")).values_list("key", "latest")
    return {keys[key]: stage for key, stage in rows}
