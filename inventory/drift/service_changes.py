"""Changes that executions made to ECS services, and which of them were not undone.

A slot is an ECS service of a cluster, of a region, of an account: one stage at a time changes it, so its
changes have an order, by when they ended.
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

DEPLOY_STEPS: Final = ("EcsRollingDeploy", "EcsBlueGreenCreateService")
SCALE_STEP: Final = "EcsScale"
# Those of their actions that send what the manifests, or the step, say.
_WRITE_ACTIONS: Final = ("CreateOrUpdateService", "CreateStageService", "ScaleService")
# What one of them may have left in AWS without having ended well.
_LASTING_STATES: Final = (ActionState.DONE, ActionState.FAILED, ActionState.STARTED, ActionState.NOT_RESTORED)


@dataclass(frozen=True)
class ExecutionChange:
    """What one step made of an ECS service, and whether it ended well and nobody took it back."""

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
        """The later of two changes has the greater one."""
        return self.ended_at, self.step.pk


@dataclass(frozen=True)
class ExecutionChanges:
    """The latest changes of slots, by the names of these; `busy` are held by an execution now.

    Of each slot there are the latest deployment and the latest count that stand, and the latest of each that
    does not. `let_go` tells when an execution has let go of a slot, where that was lately.
    """

    deployed: Mapping[str, Sequence[ExecutionChange]]
    scaled: Mapping[str, Sequence[ExecutionChange]]
    locked: frozenset[str]
    released_at: Mapping[str, datetime]

    @classmethod
    def of(cls, cluster: SyncedCluster, names: Sequence[str], since: datetime | None) -> Self:
        """Those of these slots; a fixed number of queries for all of them.

        Who has let go of a slot is told since `since`.
        """
        slots = list_lock_keys(cluster, names)
        deployed: dict[str, list[ExecutionChange]] = {}
        scaled: dict[str, list[ExecutionChange]] = {}
        for key, change in _list_latest_changes(slots):
            kept = scaled if change.step.type == SCALE_STEP else deployed
            kept.setdefault(slots[key], []).append(change)
        held = ServiceLock.objects.filter(key__in=slots).values_list("key", flat=True)
        return cls(deployed, scaled, frozenset(slots[key] for key in held), _get_release_times(slots, since))


def _list_latest_changes(slots: Mapping[str, str]) -> list[tuple[str, ExecutionChange]]:
    """The latest of each kind, by the keys of slots."""
    rows = (
        _filter_ended_steps(slots)
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
    found = list(rows)
    steps = StepExecution.objects.select_related("stage__execution__pipeline")
    by_key = steps.in_bulk([pk for pk, _, _ in found])
    return [
        (slot, ExecutionChange(by_key[pk], is_effective=bool(is_effective)))
        for pk, slot, is_effective in found
        if pk in by_key
    ]


def _filter_ended_steps(slots: Mapping[str, str]) -> QuerySet[StepExecution]:
    """The steps that have changed these slots, or may have."""
    sent = ActionRun.objects.filter(step=OuterRef("pk"), name__in=_WRITE_ACTIONS, state__in=_LASTING_STATES)
    return StepExecution.objects.filter(
        Exists(sent),
        claims__key__in=list(slots),
        claims__held_at__isnull=False,
        type__in=(*DEPLOY_STEPS, SCALE_STEP),
        ended_at__isnull=False,
    )


def _build_effective_condition() -> Any:
    """Whether a step ended well, or a person says so, and what it sent was sent and not taken back."""
    done = ActionRun.objects.filter(step=OuterRef("pk"), name__in=_WRITE_ACTIONS, state=ActionState.DONE)
    return Q(Exists(done), status=Status.SUCCESS)


def _get_release_times(slots: Mapping[str, str], since: datetime | None) -> dict[str, datetime]:
    """When executions let go of slots, of those that have since then."""
    if since is None:
        return {}
    lately = Execution.objects.filter(Q(ended_at__gt=since) | Q(look_at__isnull=False))
    claims = ServiceLockClaim.objects.filter(
        key__in=list(slots), held_at__isnull=False, stage__execution__in=lately
    ).values_list("key")
    ends = claims.annotate(step=Max("stage__steps__ended_at"), whole=Max("stage__execution__ended_at"))
    return {slots[key]: max(known) for key, *both in ends if (known := [one for one in both if one])}
