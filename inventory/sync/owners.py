"""Owners of ECS services: the service and infrastructure of the execution that changed one last.

An execution that failed before it changed the ECS service does not own it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from django.db.models import Exists, Max, OuterRef, Q

from deployments.engine.reconcile_context import build_lock_key
from deployments.models import AwsCall, ServiceLockClaim, StageExecution
from inventory.models.instances import SyncedCluster
from steps.states import CallState

WRITE_OPERATIONS = ("CreateService", "UpdateService", "DeleteService")
OwnerKeys = Mapping[str, tuple[int | None, int | None]]
OwnerSource = Callable[[SyncedCluster, Sequence[str]], OwnerKeys]
_owner_sources: list[OwnerSource] = []


def register_owner_source(source: OwnerSource) -> None:
    """Register another source for ECS services that no execution has deployed."""
    _owner_sources.append(source)


def list_lock_keys(cluster: SyncedCluster, names: Iterable[str]) -> dict[str, str]:
    """Return the lock keys of these ECS services with their names; empty while the account is unknown."""
    stage = StageExecution(account=cluster.account, region=cluster.region, cluster=cluster.cluster)
    return {build_lock_key(stage, name): name for name in names} if cluster.account else {}


@dataclass(frozen=True)
class EcsServiceOwners:
    """The keys of service and infrastructure by ECS service name."""

    known: OwnerKeys

    @classmethod
    def of(cls, cluster: SyncedCluster, names: Sequence[str]) -> Self:
        """Load the owners in four queries, plus those of further sources."""
        latest: dict[str, int] = {}
        for stages in (_list_main_stages(cluster, names), _list_claiming_stages(cluster, names)):
            for name, stage in stages.items():
                latest[name] = max(stage, latest.get(name, 0))
        rows = StageExecution.objects.filter(pk__in=set(latest.values()))
        owners = {
            pk: (service, infra) for pk, service, infra in rows.values_list("pk", "service", "infrastructure")
        }
        by_name: OwnerKeys = {name: owners[stage] for name, stage in latest.items() if stage in owners}
        unowned_names = [name for name in names if name not in by_name]
        for source in _owner_sources if unowned_names else ():
            by_name = {**source(cluster, unowned_names), **by_name}
        return cls(by_name)

    def get_owner(self, name: str) -> tuple[int | None, int | None]:
        return self.known.get(name, (None, None))


def _has_writes(stage_path: str) -> Exists:
    """Return whether a stage changed ECS services; `stage_path` leads to it from the queried row."""
    calls = AwsCall.objects.filter(service="ecs", operation__in=WRITE_OPERATIONS, state=CallState.ANSWERED)
    return Exists(calls.filter(step__stage=OuterRef(stage_path)))


def _list_main_stages(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, int]:
    """Return the latest stage of each ECS service that is a stage's own."""
    stages = StageExecution.objects.filter(
        connector=cluster.connector_id,
        region=cluster.region,
        cluster=cluster.cluster,
        ecs_service__in=names,
    ).filter(~Q(deployment_id="") | Q(_has_writes("pk")))
    return dict(stages.values("ecs_service").annotate(latest=Max("pk")).values_list("ecs_service", "latest"))


def _list_claiming_stages(cluster: SyncedCluster, names: Sequence[str]) -> dict[str, int]:
    """Return the latest stage of each ECS service whose lock a step held."""
    keys = list_lock_keys(cluster, names)
    claims = ServiceLockClaim.objects.filter(
        _has_writes("stage"), key__in=keys, granted_at__isnull=False, stage__connector=cluster.connector_id
    )
    rows = claims.values("key").annotate(latest=Max("stage")).values_list("key", "latest")
    return {keys[key]: stage for key, stage in rows}
