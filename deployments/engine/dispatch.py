"""The dispatcher: which executions are due, grouped so that one describe call serves ten of them (rule 5)."""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q, QuerySet

from deployments.engine.lease import LOOK_SECONDS
from deployments.engine.look import look
from deployments.engine.shared import Snapshot
from deployments.engine.world import REAL, World
from deployments.models import Execution, Pulse, StageExecution
from deployments.states import TERMINAL

NUDGE = timedelta(seconds=15)
MOST_AT_ONCE = 500
GROUP_SIZE = 50
DISPATCHER = "dispatcher"


def due_groups(world: World = REAL) -> list[list[UUID]]:
    """Claim what is due and tell it in groups of one door, region and cluster.

    A claim holds for fifteen seconds: a lost message costs no more than that.
    """
    now = world.now()
    Pulse.objects.update_or_create(name=DISPATCHER, defaults={"at": now})
    token = uuid.uuid4().hex
    due = _due(now).order_by("look_at").values_list("pk", flat=True)[:MOST_AT_ONCE]
    _due(now).filter(pk__in=list(due)).update(nudged_until=now + NUDGE, nudged_by=token)
    groups: dict[str, list[UUID]] = defaultdict(list)
    for pk, group in Execution.objects.filter(nudged_by=token).values_list("pk", "group"):
        groups[group].append(pk)
    return [
        members[start : start + GROUP_SIZE]
        for members in groups.values()
        for start in range(0, len(members), GROUP_SIZE)
    ]


def look_at_group(execution_ids: Sequence[UUID], *, world: World = REAL) -> None:
    """Look at each in turn, for thirty seconds in all; those not reached stay due."""
    began = world.monotonic()
    snapshot = Snapshot(wanted=_waited_for(execution_ids))
    for execution_id in execution_ids:
        if world.monotonic() - began >= LOOK_SECONDS:
            return
        look(execution_id, world=world, snapshot=snapshot)


def _due(now: datetime) -> QuerySet[Execution]:
    return (
        Execution.objects.filter(look_at__lte=now)
        .filter(Q(look_until__isnull=True) | Q(look_until__lte=now))
        .filter(Q(nudged_until__isnull=True) | Q(nudged_until__lte=now))
    )


def _waited_for(execution_ids: Sequence[UUID]) -> dict[str, list[str]]:
    """The ECS services that the group has written to and now waits for, by cluster."""
    wanted: dict[str, list[str]] = defaultdict(list)
    open_stages = StageExecution.objects.filter(execution__in=execution_ids).exclude(status__in=TERMINAL)
    for cluster, name in open_stages.exclude(deployment_id="").values_list("cluster", "ecs_service"):
        if name not in wanted[cluster]:
            wanted[cluster].append(name)
    return wanted
