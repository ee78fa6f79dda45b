"""One execution at a time may change an ECS service; others queue in the order they came (rule 13)."""

from datetime import timedelta

from deployments.engine.lease import wake
from deployments.engine.shared import Shared, slot_key
from deployments.engine.standing import settle
from deployments.models import Slot, StageExecution, StepExecution
from deployments.queries import ahead_of
from deployments.states import Status

WAIT = timedelta(seconds=15)


def want(shared: Shared, ecs_service: str, account: str) -> None:
    """Name the ECS service that this stage must hold; the account is pinned by the stage's first call."""
    stage = shared.stage
    with shared.lease.commit():
        stage.account, stage.ecs_service = account, ecs_service
        stage.slot_key = slot_key(stage, ecs_service)
        stage.slot_wanted_at = shared.world.now()
        stage.save(update_fields=["account", "ecs_service", "slot_key", "slot_wanted_at"])


def hold(shared: Shared) -> bool:
    """Take the slot if it is free and nobody came earlier; while it is not, the stage is QUEUED."""
    stage = shared.stage
    if Slot.objects.filter(key=stage.slot_key, stage=stage).exists():
        return True
    with shared.lease.commit():
        taken = not ahead_of(stage).exists() and _take(shared)
        status = Status.RUNNING if taken else Status.QUEUED
        if stage.status != status:
            stage.status = status
            stage.save(update_fields=["status"])
            if taken:
                settle(shared)
            elif not shared.execution.rolling_back:
                shared.execution.status = status
                shared.execution.save(update_fields=["status"])
        if taken:
            _restart_timeouts(shared)
    return taken


def release(shared: Shared) -> None:
    """Give the slot back and wake whoever waits; inside the commit that ends the stage or its rollback."""
    stage = shared.stage
    if not stage.slot_key:
        return
    Slot.objects.filter(stage=stage).delete()
    waiting = (
        StageExecution.objects.filter(slot_key=stage.slot_key, status=Status.QUEUED)
        .exclude(pk=stage.pk)
        .order_by("slot_wanted_at", "pk")
        .values_list("execution_id", flat=True)
    )
    if (execution_id := waiting.first()) is not None:
        wake(execution_id, shared.world.now())


def _take(shared: Shared) -> bool:
    stage = shared.stage
    rows = [Slot(key=stage.slot_key, stage=stage, taken_at=shared.world.now())]
    Slot.objects.bulk_create(rows, ignore_conflicts=True)
    return Slot.objects.filter(key=stage.slot_key, stage=stage).exists()


def _restart_timeouts(shared: Shared) -> None:
    """Time spent in the queue does not count towards a step's time-out."""
    now = shared.world.now()
    for step in StepExecution.objects.filter(
        stage=shared.stage, status__in=(Status.RUNNING, Status.ASYNC_WAITING)
    ):
        step.timeout_at = now + timedelta(seconds=step.timeout_seconds)
        step.save(update_fields=["timeout_at"])
