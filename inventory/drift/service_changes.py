"""Changes that executions made to ECS services, and whether they are still effective.

A service lock serializes the stages that change an ECS service, so its changes have an order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Window
from django.db.models.fields.json import KT
from django.db.models.functions import RowNumber

from deployments.models import ActionRun, Execution, ServiceLock, ServiceLockClaim, StepExecution
from inventory.models.instances import SyncedCluster
from inventory.sync.owners import list_lock_keys
from steps.states import ActionState, Status

DEPLOY_STEPS: Final = ("EcsRollingDeploy", "EcsBlueGreenCreateService", "EcsNativeDeploy")
SCALE_STEP: Final = "EcsScale"
# The actions that send the manifests or the count.
_WRITE_ACTIONS: Final = ("CreateOrUpdateService", "CreateStageService", "UpdateNativeService", "ScaleService")
# The states in which an action may have changed AWS.
_LASTING_STATES: Final = (ActionState.DONE, ActionState.FAILED, ActionState.STARTED, ActionState.NOT_RESTORED)


@dataclass(frozen=True)
class ExecutionChange:
    """A change of an ECS service by one step; effective if it succeeded and was not rolled back."""

    step: StepExecution
    is_effective: bool

    @property
    def ended_at(self) -> datetime:
        return self.step.ended_at or self.step.stage.execution.created_at

    @property
    def ecs_service(self) -> str:
        return str(self.step.outputs.get("serviceName", ""))

    @property
    def order(self) -> tuple[datetime, int]:
        """Return the sort key: the later of two changes is greater."""
        return self.ended_at, self.step.pk


@dataclass(frozen=True)
class ExecutionChanges:
    """The latest changes by lock name; `locked` names are held by an execution now.

    Each lock has its latest effective and its latest ineffective deployment and count. `released_at` has
    the recent releases.
    """

    deployed: Mapping[str, Sequence[ExecutionChange]]
    scaled: Mapping[str, Sequence[ExecutionChange]]
    locked: frozenset[str]
    released_at: Mapping[str, datetime]

    @classmethod
    def of(cls, cluster: SyncedCluster, names: Sequence[str], since: datetime | None) -> Self:
        """Return the changes of these locks; a fixed number of queries.

        `released_at` is filled for releases after `since`.
        """
        lock_keys = list_lock_keys(cluster, names)
        deployed: dict[str, list[ExecutionChange]] = {}
        scaled: dict[str, list[ExecutionChange]] = {}
        for key, change in _list_latest_changes(lock_keys):
            group = scaled if change.step.type == SCALE_STEP else deployed
            group.setdefault(lock_keys[key], []).append(change)
        locked = ServiceLock.objects.filter(key__in=lock_keys).values_list("key", flat=True)
        return cls(
            deployed,
            scaled,
            frozenset(lock_keys[key] for key in locked),
            _get_release_times(lock_keys, since),
        )


def _list_latest_changes(lock_keys: Mapping[str, str]) -> list[tuple[str, ExecutionChange]]:
    """Return the latest change of each kind, by lock key."""
    rows = (
        _filter_ended_steps(lock_keys)
        .annotate(
            is_effective=_build_effective_condition(), slot=F("claims__key"), named=KT("outputs__serviceName")
        )
        .annotate(
            turn=Window(
                RowNumber(),
                partition_by=[F("slot"), F("type"), F("named"), F("is_effective")],
                order_by=[F("ended_at").desc(), F("pk").desc()],
            )
        )
        .filter(turn=1)
        .values_list("pk", "slot", "is_effective")
    )
    latest = list(rows)
    steps = StepExecution.objects.select_related("stage__execution__pipeline")
    steps_by_key = steps.in_bulk([pk for pk, _, _ in latest])
    return [
        (lock_key, ExecutionChange(steps_by_key[pk], is_effective=bool(is_effective)))
        for pk, lock_key, is_effective in latest
        if pk in steps_by_key
    ]


def _filter_ended_steps(lock_keys: Mapping[str, str]) -> QuerySet[StepExecution]:
    """Return the ended steps that changed, or may have changed, these services."""
    writes = ActionRun.objects.filter(step=OuterRef("pk"), name__in=_WRITE_ACTIONS, state__in=_LASTING_STATES)
    return StepExecution.objects.filter(
        Exists(writes),
        claims__key__in=list(lock_keys),
        claims__granted_at__isnull=False,
        type__in=(*DEPLOY_STEPS, SCALE_STEP),
        ended_at__isnull=False,
    )


def _build_effective_condition() -> Any:
    """Return the condition of an effective step: it succeeded and its write was not rolled back."""
    done = ActionRun.objects.filter(step=OuterRef("pk"), name__in=_WRITE_ACTIONS, state=ActionState.DONE)
    return Q(Exists(done), status=Status.SUCCESS)


def _get_release_times(lock_keys: Mapping[str, str], since: datetime | None) -> dict[str, datetime]:
    """Return when executions released these locks after `since`."""
    if since is None:
        return {}
    recent = Execution.objects.filter(Q(ended_at__gt=since) | Q(due_at__isnull=False))
    claims = ServiceLockClaim.objects.filter(
        key__in=list(lock_keys), granted_at__isnull=False, stage__execution__in=recent
    ).values_list("key")
    ends = claims.annotate(step=Max("stage__steps__ended_at"), whole=Max("stage__execution__ended_at"))
    return {
        lock_keys[key]: max(moments)
        for key, *columns in ends
        if (moments := [moment for moment in columns if moment])
    }
