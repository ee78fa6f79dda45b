"""Queue of delegate tasks: offers to delegates, ends of queued tasks, allow and block lists."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q, QuerySet

from connectors.models import Connector
from delegates.live import publish_delegates_changed, publish_task_changed
from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateEvent,
    DelegateTask,
    LastServed,
    RoutingDecision,
)
from delegates.protocol.notices import notify_task
from delegates.queries.routing_candidates import count_free_places
from delegates.queries.shortlists import Need, Refusals, RoutingField, get_need
from delegates.routing.decisions import WAITING, RoutingResult
from delegates.routing.rules import RuleVerdict
from delegates.state_log import log_task_status
from delegates.task_owners import get_task_owner
from web.clock import get_database_time

OFFER_DURATION = timedelta(seconds=5)
# So many at once, the oldest first; more wait for the next second.
ROUTING_BATCH_SIZE = 2000
# Tasks that are decided with one read of the delegates and written in one transaction: longer ones would
# block other writers.
BATCH_SIZE = 100
# Delegates in a stored decision.
MAX_STORED = 20
# Number of waiting tasks that are routed with a new one, or when a full delegate has a free place.
FIRST_BATCH_SIZE = 10
NO_REFUSALS: Refusals = frozenset()
# Decisions without a delegate, by need and refusals: who refused a task may take others of the same need.
Hopeless = dict[tuple[Need, Refusals], RoutingResult]


@dataclass(frozen=True)
class RoutingRound:
    """Counts of one routing round."""

    offered: int = 0
    failed: int = 0
    expired: int = 0


def list_waiting_tasks(now: datetime) -> QuerySet[DelegateTask]:
    """Return the queued tasks without a current offer, oldest first."""
    nobody = Q(offered_to=None) | Q(offered_until=None) | Q(offered_until__lte=now)
    queued = DelegateTask.objects.filter(nobody, status=DelegateTask.Status.QUEUED)
    # The parameters are decrypted on access; routing does not need them.
    return queued.defer("payload", "result").order_by("queued_at", "pk")


def route_waiting_tasks(now: datetime) -> RoutingRound:
    """Route all waiting tasks, the oldest first. Several processes may do so at once.

    Offers count as work of the delegate from the moment they are made, so that many tasks spread.
    """
    return _route(list(list_waiting_tasks(now).select_related("scope")[:ROUTING_BATCH_SIZE]), now)


def route_new_task(task_id: UUID, now: datetime) -> RoutingRound:
    """Route a task after those that wait; it is routed alone while many wait, whom the scan routes.

    Each new task would route the same others again, and cost as much as all of them.
    """
    waiting = list_waiting_tasks(now).select_related("scope")
    first = list(waiting[: FIRST_BATCH_SIZE + 1])
    if len(first) > FIRST_BATCH_SIZE:
        first = list(waiting.filter(pk=task_id))
    return _route(first, now)


def fill_free_place(delegate_id: int, now: datetime) -> RoutingRound:
    """Route the first waiting tasks after a task of a delegate ended, if that was full before."""
    first = list(list_waiting_tasks(now).select_related("scope")[:FIRST_BATCH_SIZE])
    return _route(first, now) if first and count_free_places(delegate_id, now) <= 1 else RoutingRound()


def route_after_commit(task_id: UUID) -> None:
    """Route a task after the current transaction commits.

    If that fails, the routing of each second finds it.
    """
    transaction.on_commit(lambda: route_new_task(task_id, get_database_time()), robust=True)


def fill_after_commit(delegate_id: int) -> None:
    """Fill a place that becomes free at a delegate after the current transaction commits."""
    transaction.on_commit(lambda: fill_free_place(delegate_id, get_database_time()), robust=True)


def _route(tasks: Sequence[DelegateTask], now: datetime) -> RoutingRound:
    expired = [task for task in tasks if task.deadline <= now]
    alive = [task for task in tasks if task.deadline > now]
    hopeless: Hopeless = {}
    rounds = [
        _route_batch(alive[at : at + BATCH_SIZE], hopeless, now) for at in range(0, len(alive), BATCH_SIZE)
    ]
    expired_count = sum(
        end_queued_task(task, DelegateTask.Status.EXPIRED, describe_expiry(task), now) for task in expired
    )
    return RoutingRound(
        sum(part.offered for part in rounds), sum(part.failed for part in rounds), expired_count
    )


def _route_batch(tasks: Sequence[DelegateTask], hopeless: Hopeless, now: datetime) -> RoutingRound:
    decisions = _decide(tasks, hopeless, now)
    changed = [(task, decision) for task, decision in decisions if _differs(task, decision)]
    offered = _write(changed, now)
    failed = sum(
        end_queued_task(task, DelegateTask.Status.FAILED, decision.sentence, now)
        for task, decision in changed
        if decision.impossible
    )
    return RoutingRound(offered, failed)


def _decide(
    tasks: Iterable[DelegateTask], hopeless: Hopeless, now: datetime
) -> list[tuple[DelegateTask, RoutingResult]]:
    """Return one decision for each task; a full delegate stays full for the rest of the round."""
    undecided = [task for task in tasks if (get_need(task), NO_REFUSALS) not in hopeless]
    field = RoutingField(undecided, now) if undecided else None
    decided = []
    for task in tasks:
        need = get_need(task)
        decision = hopeless.get((need, NO_REFUSALS))
        if decision is None and field is not None:
            key = need, field.list_refusals(task)
            decision = hopeless.get(key) or field.decide(task)
            if not decision.chosen:
                hopeless[key] = decision
        if decision is not None:
            decided.append((task, decision))
    return decided


def _differs(task: DelegateTask, decision: RoutingResult) -> bool:
    """Return whether the task needs an update; a new offer always does."""
    return decision.chosen is not None or task.offered_to_id is not None or task.reason != decision.sentence


def _write(changed: Sequence[tuple[DelegateTask, RoutingResult]], now: datetime) -> int:
    """Store offers and explanations; tasks that another process changed meanwhile are left alone."""
    offered = 0
    with transaction.atomic():
        decided = []
        for task, decision in changed:
            if not _update(task, decision, now):
                continue
            if _is_new_decision(task, decision):
                decided.append((task, decision))
            if decision.chosen:
                offered += 1
                notify_task(decision.chosen.key, task.pk)
        _store_decisions(decided, now)
    return offered


def _update(task: DelegateTask, decision: RoutingResult, now: datetime) -> bool:
    """Update a task if it is unchanged since the read; return False otherwise."""
    chosen = decision.chosen.key if decision.chosen else None
    as_read = DelegateTask.objects.filter(
        pk=task.pk,
        status=DelegateTask.Status.QUEUED,
        offered_to=task.offered_to_id,
        offered_until=task.offered_until,
        reason=task.reason,
    )
    until = now + OFFER_DURATION if chosen else None
    publish_task_changed(task.pk)
    return as_read.update(offered_to=chosen, offered_until=until, reason=decision.sentence) == 1


def _is_new_decision(task: DelegateTask, decision: RoutingResult) -> bool:
    chosen = decision.chosen.key if decision.chosen else None
    return (task.offered_to_id, task.reason) != (chosen, decision.sentence)


def _store_decisions(decided: Sequence[tuple[DelegateTask, RoutingResult]], now: datetime) -> None:
    again = [task.pk for task, _ in decided if task.reason or task.offered_to_id or task.attempts]
    earlier = RoutingDecision.objects.filter(task__in=again).values_list("task_id").annotate(Max("number"))
    numbers = dict(earlier) if again else {}
    RoutingDecision.objects.bulk_create(
        RoutingDecision(
            task=task,
            number=numbers.get(task.pk, 0) + 1,
            at=now,
            chosen_id=decision.chosen.key if decision.chosen else None,
            sentence=decision.sentence,
            rows=serialize_decision(decision),
            is_complete=is_complete_when_serialized(decision),
        )
        for task, decision in decided
    )


def serialize_decision(decision: RoutingResult) -> list[dict[str, Any]]:
    """Return a decision as stored JSON: a row for each rule and each of the delegates that came first."""
    verdicts_by_key: dict[int, list[RuleVerdict]] = {}
    for verdict in decision.verdicts:
        verdicts_by_key.setdefault(verdict.key, []).append(verdict)
    ranks = {candidate.key: rank for rank, candidate in enumerate(decision.ranked)}
    keys = sorted(
        verdicts_by_key,
        key=lambda key: (ranks.get(key, len(ranks)), sum(not verdict.ok for verdict in verdicts_by_key[key])),
    )
    return [serialize_verdict(verdict) for key in keys[:MAX_STORED] for verdict in verdicts_by_key[key]]


def is_complete_when_serialized(decision: RoutingResult) -> bool:
    """Return whether the stored JSON of a decision has rows of all delegates."""
    return decision.is_complete and len(decision.list_keys()) <= MAX_STORED


def serialize_verdict(verdict: RuleVerdict) -> dict[str, Any]:
    """Return a verdict as stored JSON."""
    return {
        "delegate": verdict.key,
        "name": verdict.name,
        "rule": verdict.rule.value,
        "verdict": "PASS" if verdict.ok else "FAIL",
        "detail": verdict.detail,
        "remedy": verdict.remedy,
        "seconds_left": None if verdict.seconds_left is None else round(verdict.seconds_left),
    }


def describe_expiry(task: DelegateTask) -> str:
    """Return why no delegate has taken a queued task in time, as sentences."""
    why = task.reason if task.offered_to_id is None else "The last delegate did not accept the offer."
    return f"No delegate accepted the task in time. {why.removeprefix(WAITING)}".strip()


def end_queued_task(task: DelegateTask, status: str, reason: str, now: datetime) -> bool:
    """End a queued task and notify its owner; return False if it is running or has ended."""
    with transaction.atomic():
        if not close_queued_task(task, status, reason, now):
            return False
        if owner := get_task_owner(task):
            owner.record_unanswered(task)
    return True


def close_queued_task(task: DelegateTask, status: str, reason: str, now: datetime) -> bool:
    """End a queued task without a notice; return False if it is no longer queued."""
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
    publish_task_changed(task.pk)
    task.refresh_from_db()
    log_task_status(task, previous=DelegateTask.Status.QUEUED)
    return True


ALLOWLIST_DURATION = timedelta(hours=6)
BLOCKLIST_DURATION = timedelta(minutes=5)


@transaction.atomic(savepoint=False)
def allow_delegate(delegate: Delegate, criterion: str, connector: Connector | None = None) -> None:
    """Prefer a delegate that reached a criterion's URL for six hours (R036).

    With a connector, record it as the connector's last delegate (R044). An error response counts too, because
    the address sent it.
    """
    now = get_database_time()
    # One statement each: every completed task writes both, many of them the row of one connector.
    if connector:
        LastServed.objects.bulk_create(
            [LastServed(connector=connector, delegate=delegate, at=now)],
            update_conflicts=True,
            unique_fields=["connector"],
            update_fields=["delegate", "at"],
        )
    if not criterion:
        return
    BlocklistEntry.objects.filter(delegate=delegate, criterion=criterion).delete()
    expires_at = now + ALLOWLIST_DURATION
    AllowlistEntry.objects.bulk_create(
        [AllowlistEntry(delegate=delegate, criterion=criterion, validated_at=now, expires_at=expires_at)],
        update_conflicts=True,
        unique_fields=["delegate", "criterion"],
        update_fields=["validated_at", "expires_at"],
    )


@transaction.atomic
def block_delegate(delegate: Delegate, criterion: str, reason: str) -> None:
    """Block a delegate for a criterion for five minutes, even if it is the only candidate."""
    if not criterion:
        return
    now = get_database_time()
    AllowlistEntry.objects.filter(delegate=delegate, criterion=criterion).delete()
    BlocklistEntry.objects.update_or_create(
        delegate=delegate,
        criterion=criterion,
        defaults={"expires_at": now + BLOCKLIST_DURATION, "reason": reason},
    )
    DelegateEvent.objects.create(
        scope_id=delegate.scope_id,
        delegate=delegate,
        name=delegate.name,
        at=now,
        kind=DelegateEvent.Kind.BLOCKED,
        text=f"No tasks for {criterion} for five minutes: {reason}",
    )
    publish_delegates_changed(delegate.pk)
