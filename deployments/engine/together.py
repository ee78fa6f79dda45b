"""One look at all that a group waits for: ten ECS services to a call; only what changed is looked into."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from aws.ecs import SERVICES_PER_CALL, Ecs
from aws.errors import AwsError
from aws.paging import in_batches
from aws.types import EcsService
from delegates.doors import DoorClosed
from deployments.engine import quota, recent_reads
from deployments.engine.parking import group_of, quota_of, sight_of
from deployments.engine.shared import Snapshot
from deployments.engine.world import Door, World
from deployments.models import Execution, StageExecution
from steps.actions.base import Seen


@dataclass(frozen=True)
class Waiting:
    """One parked execution, as far as the look of its group needs it."""

    pk: UUID
    awaits: str
    sight: str
    judge_by: datetime | None
    nudged_by: str


def waiting_among(execution_ids: Sequence[UUID]) -> list[Waiting]:
    """The parked ones."""
    rows = Execution.objects.filter(pk__in=execution_ids).exclude(awaits="").order_by("awaits")
    return [Waiting(*row) for row in rows.values_list("pk", "awaits", "sight", "judge_by", "nudged_by")]


def changed(waiting: Sequence[Waiting], *, world: World, snapshot: Snapshot) -> list[UUID]:
    """The executions that want a look: their service looks other than when they were last judged.

    The others are as they were, and nothing is written about them: their next turn is set already.
    """
    if not waiting:
        return []
    everybody = [one.pk for one in waiting]
    stage = _stage_of(waiting[0])
    if stage is None:
        return everybody
    try:
        door = snapshot.doors.open(world, stage.connector, stage.region)
    except DoorClosed:
        return everybody
    if hasattr(door, "queue"):
        return everybody
    return [
        pk
        for ten in in_batches(waiting, SERVICES_PER_CALL)
        for pk in _changed_of(ten, stage, door, world=world, snapshot=snapshot)
    ]


def _changed_of(
    ten: Sequence[Waiting], stage: StageExecution, door: Door, *, world: World, snapshot: Snapshot
) -> list[UUID]:
    begun = world.now()
    try:
        answered = Ecs(door).services_as_answered(stage.cluster, [one.awaits for one in ten])
    except AwsError as error:
        # Each look makes the call itself then, and tells its watchers what is wrong.
        quota.rest(quota_of(stage), error, world.now())
        return [one.pk for one in ten]
    found: dict[str, dict[str, Any]] = {service.get("serviceName", ""): service for service in answered}
    wanted: list[UUID] = []
    news: dict[str, dict[str, Any] | None] = {}
    for one in ten:
        raw = found.get(one.awaits)
        if one.sight == sight_of(raw) and one.judge_by is not None and begun < one.judge_by:
            continue
        service = None if raw is None else EcsService.from_aws(raw)
        snapshot.keep(stage.cluster, one.awaits, Seen(one.awaits, service, begun))
        wanted.append(one.pk)
        news[one.awaits] = raw
    # Sync of the same cluster takes from there what it would ask AWS for once more.
    recent_reads.publish(recent_reads.SERVICES, group_of(stage), news, begun=begun)
    return wanted


def _stage_of(waiting: Waiting) -> StageExecution | None:
    """The stage that waits tells the group's door, region and cluster: the last that has a service.

    It may wait for another service than its own: a canary, one of a blue/green pair.
    """
    stages = StageExecution.objects.filter(execution=waiting.pk).exclude(ecs_service="")
    return stages.select_related("connector__secret").order_by("position").last()
