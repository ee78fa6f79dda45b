"""Offers waiting delegate tasks to delegates, and ends those that waited too long or that nobody can do."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q, QuerySet

from delegates.candidates import Field, field_for, wanted_by
from delegates.models import DelegateTask, RoutingDecision
from delegates.owners import owner_of
from delegates.protocol.notices import notify_task
from delegates.routing import Decision, route
from delegates.routing_rules import Verdict, Wanted
from delegates.task_news import task_changed
from web.clock import database_now

OFFER = timedelta(seconds=5)
# So many at once, the oldest first; more wait for the next second.
BATCH = 2000
# So many are written in one transaction: others want to write too.
TOGETHER = 100
# So many are routed where something changed between two looks.
SOON = 50


@dataclass(frozen=True)
class Routed:
    """What one round did."""

    offered: int = 0
    failed: int = 0
    expired: int = 0


def waiting(now: datetime) -> QuerySet[DelegateTask]:
    """Queued tasks that are offered to nobody at this moment, the oldest first."""
    nobody = Q(offered_to=None) | Q(offered_until=None) | Q(offered_until__lte=now)
    queued = DelegateTask.objects.filter(nobody, status=DelegateTask.Status.QUEUED)
    # What a task carries is decrypted where it is read; nobody needs it to route the task.
    return queued.defer("payload", "result").order_by("queued_at", "pk")


def route_waiting(now: datetime) -> Routed:
    """Route all waiting tasks, the oldest first. Several processes may do so at once.

    Offers count as work of the delegate from the moment they are made, so that many tasks spread.
    """
    return _route(list(waiting(now).select_related("scope")[:BATCH]), now)


def route_soon(now: datetime, task_id: UUID | None = None) -> Routed:
    """Route the first that wait, and a new task behind them; the others are for the look of each second."""
    first = list(waiting(now).select_related("scope")[:SOON])
    if task_id and task_id not in {task.pk for task in first}:
        first += waiting(now).filter(pk=task_id).select_related("scope")
    return _route(first, now) if first else Routed()


def route_after_commit(task_id: UUID | None = None) -> None:
    """Once the change under way is committed: a place is free, or a new task wants one.

    Should that fail, the look of each second finds what waits.
    """
    transaction.on_commit(lambda: route_soon(database_now(), task_id), robust=True)


def _route(tasks: Sequence[DelegateTask], now: datetime) -> Routed:
    expired = [task for task in tasks if task.deadline <= now]
    alive = [task for task in tasks if task.deadline > now]
    decisions = _decide(alive, field_for(alive, now)) if alive else []
    changed = [(task, decision) for task, decision in decisions if _differs(task, decision)]
    offered = _write(changed, now)
    failed = sum(
        end_queued(task, DelegateTask.Status.FAILED, decision.sentence, now)
        for task, decision in changed
        if decision.impossible
    )
    gone = sum(end_queued(task, DelegateTask.Status.EXPIRED, _too_late(task), now) for task in expired)
    return Routed(offered, failed, gone)


def _decide(tasks: Iterable[DelegateTask], field: Field) -> list[tuple[DelegateTask, Decision]]:
    """One decision for each task; who is full for one is full for all after it that want the same."""
    hopeless: dict[tuple[Wanted, int | None], Decision] = {}
    decided = []
    for task in tasks:
        wanted = wanted_by(task)
        alike = (wanted, task.connector_id)
        decision = hopeless.get(alike) or route(wanted, field.for_task(task))
        if decision.chosen:
            field.give(decision.chosen.key)
        else:
            hopeless[alike] = decision
        decided.append((task, decision))
    return decided


def _differs(task: DelegateTask, decision: Decision) -> bool:
    """Whether anything has to be written: an offer always has, its end passed."""
    return decision.chosen is not None or task.offered_to_id is not None or task.reason != decision.sentence


def _write(changed: Sequence[tuple[DelegateTask, Decision]], now: datetime) -> int:
    """Offer and explain; what another process routed, withdrew or gave away meanwhile is left alone."""
    return sum(_write_some(changed[at : at + TOGETHER], now) for at in range(0, len(changed), TOGETHER))


def _write_some(changed: Sequence[tuple[DelegateTask, Decision]], now: datetime) -> int:
    offered = 0
    with transaction.atomic():
        told = []
        for task, decision in changed:
            if not _update(task, decision, now):
                continue
            if _is_news(task, decision):
                told.append((task, decision))
            if decision.chosen:
                offered += 1
                notify_task(decision.chosen.key, task.pk)
        _keep(told, now)
    return offered


def _update(task: DelegateTask, decision: Decision, now: datetime) -> bool:
    """Write it where the task is as it was read; False where somebody else changed it since."""
    chosen = decision.chosen.key if decision.chosen else None
    as_read = DelegateTask.objects.filter(
        pk=task.pk,
        status=DelegateTask.Status.QUEUED,
        offered_to=task.offered_to_id,
        offered_until=task.offered_until,
        reason=task.reason,
    )
    until = now + OFFER if chosen else None
    task_changed(task.pk)
    return as_read.update(offered_to=chosen, offered_until=until, reason=decision.sentence) == 1


def _is_news(task: DelegateTask, decision: Decision) -> bool:
    chosen = decision.chosen.key if decision.chosen else None
    return (task.offered_to_id, task.reason) != (chosen, decision.sentence)


def _keep(told: Sequence[tuple[DelegateTask, Decision]], now: datetime) -> None:
    numbers = dict(
        RoutingDecision.objects.filter(task__in=[task.pk for task, _ in told])
        .values_list("task_id")
        .annotate(Max("number"))
    )
    RoutingDecision.objects.bulk_create(
        RoutingDecision(
            task=task,
            number=numbers.get(task.pk, 0) + 1,
            at=now,
            chosen_id=decision.chosen.key if decision.chosen else None,
            sentence=decision.sentence,
            rows=rows_of(decision),
        )
        for task, decision in told
    )


def rows_of(decision: Decision) -> list[dict[str, Any]]:
    """A decision as it is kept: a row for each delegate and rule."""
    return [_row(one) for one in decision.verdicts]


def _row(one: Verdict) -> dict[str, Any]:
    return {
        "delegate": one.key,
        "name": one.name,
        "rule": one.rule.value,
        "verdict": "PASS" if one.ok else "FAIL",
        "detail": one.detail,
        "remedy": one.remedy,
        "seconds_left": None if one.seconds_left is None else round(one.seconds_left),
    }


def _too_late(task: DelegateTask) -> str:
    why = (
        task.reason
        if task.offered_to_id is None
        else "The last delegate that it was offered to did not take it."
    )
    return f"No delegate took it in time. {why}".strip()


def end_queued(task: DelegateTask, status: str, reason: str, now: datetime) -> bool:
    """End a task that no delegate holds and tell its owner; False where one took it or it has ended."""
    with transaction.atomic():
        if not close_queued(task, status, reason, now):
            return False
        if owner := owner_of(task):
            owner.gave_up(task)
    return True


def close_queued(task: DelegateTask, status: str, reason: str, now: datetime) -> bool:
    """End a queued task without telling anybody; False where it is queued no more."""
    values = {
        "status": status,
        "reason": reason,
        "finished_at": now,
        "offered_to": None,
        "offered_until": None,
    }
    queued = DelegateTask.objects.filter(pk=task.pk, status=DelegateTask.Status.QUEUED)
    if not queued.update(**values):
        return False
    task_changed(task.pk)
    task.refresh_from_db()
    return True
