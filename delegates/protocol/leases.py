"""Leases: held by renewing them, lost when they end, and what becomes of a task then (DESIGN 4)."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from delegates.models import DelegateInstance, DelegateTask
from delegates.owners import owner_of
from delegates.protocol.notices import notify_abort
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import instance_of
from delegates.protocol.terms import AFTER_DEADLINE, LEASE
from delegates.task_news import task_changed
from guards.limits import AGENT_TASKS
from web.clock import database_now

LOST = "DELEGATE_LOST"
STARTED = DelegateTask.Status.STARTED
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Held:
    """What became of the tasks that an instance believes to have."""

    lost: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


def renew(request: AgentRequest) -> Reply:
    """POST /agent/v1/tasks/renew: keep what is still this instance's, tell what is not."""
    instance = instance_of(request.bearer)
    held = hold(instance.pk, request.fields().held("tasks", AGENT_TASKS), now=database_now())
    return Reply({"lost": list(held.lost), "aborted": list(held.aborted)})


def hold(instance_id: int, said: Mapping[UUID, int], *, now: datetime) -> Held:
    """Renew the leases of tasks that an instance has under these fences."""
    if not said:
        return Held()
    own = DelegateTask.objects.filter(
        pk__in=said, instance=instance_id, status=STARTED, deadline__gt=now - AFTER_DEADLINE
    )
    found = {pk: (fence, aborts) for pk, fence, aborts in own.values_list("pk", "fence", "abort_requested")}
    kept = [pk for pk, fence in said.items() if pk in found and found[pk][0] == fence]
    # A lease that ended and that nobody has looked at yet is not given back: what it held may be redone.
    alive = set(kept) - _ended(kept, instance_id, now)
    DelegateTask.objects.filter(
        pk__in=alive, instance=instance_id, status=STARTED, lease_until__gt=now
    ).update(lease_until=now + LEASE)
    return Held(
        lost=tuple(str(pk) for pk in said if pk not in alive),
        aborted=tuple(str(pk) for pk in alive if found[pk][1]),
    )


def _ended(kept: Iterable[UUID], instance_id: int, now: datetime) -> set[UUID]:
    ended = DelegateTask.objects.filter(pk__in=list(kept), instance=instance_id, lease_until__lte=now)
    return set(ended.values_list("pk", flat=True))


def sweep(*, now: datetime | None = None, most: int = 500) -> int:
    """Take tasks from instances whose leases have ended, and say how many there were."""
    now = now or database_now()
    due = DelegateTask.objects.filter(status=STARTED, lease_until__lte=now).order_by("lease_until")
    return sum(_lose(pk, now) for pk in list(due.values_list("pk", flat=True)[:most]))


def stop_overdue(now: datetime, *, most: int = 500) -> int:
    """Ask who holds tasks past their deadlines to stop; those who do not lose them a minute later."""
    overdue = DelegateTask.objects.filter(status=STARTED, deadline__lte=now, abort_requested=False)
    found = list(overdue.values_list("pk", "instance", "fence")[:most])
    for pk, instance_id, fence in found:
        with transaction.atomic():
            asked = overdue.filter(pk=pk, fence=fence).update(abort_requested=True)
            if asked and instance_id is not None:
                notify_abort(instance_id, pk)
    return len(found)


@transaction.atomic
def _lose(task_id: UUID, now: datetime) -> bool:
    task = DelegateTask.objects.select_related("instance__delegate").get(pk=task_id)
    again = task.repeatable and not task.abort_requested and task.deadline > now
    held = DelegateTask.objects.filter(
        pk=task_id, status=STARTED, fence=task.fence, lease_until=task.lease_until, lease_until__lte=now
    )
    changed = held.update(**(_requeued(task) if again else _ended_values(task, now)))
    if not changed:
        return False
    task_changed(task_id)
    logger.warning("%s was lost with %s", task.title, task.instance_name)
    task.refresh_from_db()
    if (owner := owner_of(task)) is not None:
        (owner.again if again else owner.lost)(task)
    return True


def _requeued(task: DelegateTask) -> dict[str, object]:
    return {
        "status": DelegateTask.Status.QUEUED,
        "instance": None,
        "lease_until": None,
        "offered_to": None,
        "offered_until": None,
        "started_at": None,
        "reason": f"{task.instance_name} was lost. It is queued again.",
    }


def _ended_values(task: DelegateTask, now: datetime) -> dict[str, object]:
    aborted = task.abort_requested and task.repeatable
    text = (
        f"{task.instance_name} was lost while it did this: nobody knows how far it came."
        if not task.repeatable
        else f"{task.instance_name} was lost while it did this."
    )
    return {
        "status": DelegateTask.Status.ABORTED if aborted else DelegateTask.Status.FAILED,
        "lease_until": None,
        "finished_at": now,
        "reason": text,
        "error": {"code": LOST, "message": text, "capability": False},
    }


def end_leases(instances: Iterable[DelegateInstance], *, now: datetime) -> None:
    """Let the leases of instances that are not trusted any more end now; the next sweep takes their tasks."""
    ids = [one.pk for one in instances]
    DelegateTask.objects.filter(instance__in=ids, status=STARTED, lease_until__gt=now).update(lease_until=now)
