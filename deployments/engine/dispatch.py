"""The dispatcher: which executions are due, grouped so that one describe call serves ten of them (rule 5)."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db.models import F, Q, QuerySet

from aws.ecs import SERVICES_PER_CALL
from aws.paging import in_batches
from deployments.engine import quota, together
from deployments.engine.lease import LOOK_SECONDS
from deployments.engine.look import look
from deployments.engine.schedule import turn_after
from deployments.engine.shared import Snapshot
from deployments.engine.world import REAL, World
from deployments.models import Execution, Pulse

NUDGE = timedelta(seconds=15)
MOST_AT_ONCE = 500
MOST_PARKED_AT_ONCE = 5000
GROUP_SIZE = 50
DISPATCHER = "dispatcher"
PULSE_APART = timedelta(seconds=5)
_last_pulse: dict[str, datetime] = {}


@dataclass(frozen=True)
class Group:
    """Executions of one door, region and cluster; `token` names the dispatch that claimed them."""

    execution_ids: tuple[UUID, ...]
    token: str = ""


@dataclass(frozen=True)
class _Parked:
    """A parked execution whose turn has come."""

    pk: UUID
    group: str
    quota: str
    since: datetime
    turn: datetime


def due_groups(world: World = REAL) -> list[Group]:
    """Claim what is due and tell it in groups of one door, region and cluster.

    A claim holds for fifteen seconds, and for a parked execution until its next turn: a lost message costs no
    more than that.
    """
    now = world.now()
    _write_pulse(now)
    token = uuid.uuid4().hex
    claimed = _claim_awake(now, token) + _claim_parked(now, token)
    groups: dict[str, list[UUID]] = defaultdict(list)
    for group, pk in claimed:
        groups[group].append(pk)
    return [
        Group(tuple(members), token) for group in groups.values() for members in in_batches(group, GROUP_SIZE)
    ]


def _write_pulse(now: datetime) -> None:
    """Note every few seconds that a dispatcher runs; `/readyz` allows for fifteen."""
    if abs(now - _last_pulse.get(DISPATCHER, datetime.min.replace(tzinfo=UTC))) < PULSE_APART:
        return
    Pulse.objects.update_or_create(name=DISPATCHER, defaults={"at": now})
    _last_pulse[DISPATCHER] = now


def look_at_group(group: Group, *, world: World = REAL) -> None:
    """Look at each that wants it, for thirty seconds in all; those not reached stay due."""
    began = world.monotonic()
    snapshot = Snapshot()
    waiting = together.waiting_among(group.execution_ids)
    parked = {one.pk for one in waiting}
    # What a later message has taken over is in its hands.
    ours = [one for one in waiting if one.nudged_by == group.token or not group.token]
    changed = together.changed(ours, world=world, snapshot=snapshot)
    awake = [pk for pk in group.execution_ids if pk not in parked]
    for execution_id in (*awake, *changed):
        if world.monotonic() - began >= LOOK_SECONDS:
            return
        look(execution_id, world=world, snapshot=snapshot)


def _due(now: datetime) -> QuerySet[Execution]:
    return (
        Execution.objects.filter(look_at__lte=now)
        .filter(Q(look_until__isnull=True) | Q(look_until__lte=now))
        .filter(Q(nudged_until__isnull=True) | Q(nudged_until__lte=now))
    )


def _claim_awake(now: datetime, token: str) -> list[tuple[str, UUID]]:
    due = _due(now).filter(awaits="").order_by("look_at").values_list("pk", flat=True)[:MOST_AT_ONCE]
    return _claim(list(due), now, now + NUDGE, token)


def _claim_parked(now: datetime, token: str) -> list[tuple[str, UUID]]:
    """Those who have waited longest first, as many as calls may be made for; the others stay due."""
    due = _due(now).exclude(awaits="").order_by(F("nudged_until").asc(nulls_first=True), "look_at")
    fields = ("pk", "group", "quota", "awaits_since", "nudged_until", "look_at")
    parked = [
        _Parked(pk, group, of_quota, since, nudged_until or look_at)
        for pk, group, of_quota, since, nudged_until, look_at in due.values_list(*fields)[
            :MOST_PARKED_AT_ONCE
        ]
    ]
    by_turn: dict[datetime, list[UUID]] = defaultdict(list)
    for one in _affordable(parked, now):
        by_turn[turn_after(now, one.since, one.group)].append(one.pk)
    return [row for turn, members in by_turn.items() for row in _claim(members, now, turn, token)]


def _claim(pks: Sequence[UUID], now: datetime, until: datetime, token: str) -> list[tuple[str, UUID]]:
    """Claim in one UPDATE; another dispatcher may have been faster with some of them."""
    if not pks or not _due(now).filter(pk__in=pks).update(nudged_until=until, nudged_by=token):
        return []
    mine = Execution.objects.filter(pk__in=pks, nudged_by=token)
    return list(mine.order_by("awaits", "look_at").values_list("group", "pk"))


def _affordable(parked: Iterable[_Parked], now: datetime) -> list[_Parked]:
    """Of each account and region as many tens as it has tokens for."""
    tens: dict[str, list[list[_Parked]]] = defaultdict(list)
    groups: dict[tuple[str, str], list[_Parked]] = defaultdict(list)
    for one in parked:
        groups[one.quota, one.group].append(one)
    for (of_quota, _), members in groups.items():
        tens[of_quota] += in_batches(members, SERVICES_PER_CALL)
    chosen: list[_Parked] = []
    for of_quota, calls in tens.items():
        calls.sort(key=lambda ten: ten[0].turn)
        tokens = quota.grant(of_quota, quota.SERVICE_READS, len(calls), now)
        chosen += [one for ten in calls[:tokens] for one in ten]
    return chosen
