"""Acquiring: a delegate takes the tasks that are offered to it, each under a lease and a new fence."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from delegates.isolation import may_run_beside_others, without_other_projects
from delegates.models import Delegate, DelegateInstance, DelegateTask, TaskAttempt, TaskLogChunk
from delegates.owners import Payload, owner_of
from delegates.protocol.answers import asked_of
from delegates.protocol.happenings import called
from delegates.protocol.terms import LEASE, SEND_WITHIN_SECONDS
from delegates.task_news import task_changed
from web.clock import database_now

MOST_AT_ONCE = 10
WITHDRAWN = "It was withdrawn before a delegate took it."


@dataclass(frozen=True)
class Taken:
    """A task that an instance has taken, with all that it needs to do it."""

    task: DelegateTask
    payload: Payload = field(repr=False)

    def document(self) -> dict[str, Any]:
        """The task as the agent gets it: the only place where secrets leave."""
        return {
            "id": str(self.task.pk),
            "kind": self.task.kind,
            "title": self.task.title,
            "fence": self.task.fence,
            "attempt": self.task.attempts,
            "lease_seconds": int(LEASE.total_seconds()),
            "send_within_seconds": SEND_WITHIN_SECONDS,
            "timeout_seconds": self.task.timeout_seconds,
            "is_write": self.task.is_write,
            "params": dict(self.payload.params),
            "mask": list(self.payload.mask),
        }


def take(instance: DelegateInstance, *, free: int) -> list[Taken]:
    """Give an instance up to `free` of the tasks that are offered to its delegate."""
    if not _may_take(instance):
        return []
    busy = DelegateTask.objects.filter(instance=instance, status=DelegateTask.Status.STARTED).count()
    most = min(free, instance.capacity - busy, MOST_AT_ONCE)
    if most <= 0:
        return []
    queued = DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED, offered_to=instance.delegate_id)
    offered = without_other_projects(instance, queued)
    ids = list(offered.order_by("queued_at", "pk").values_list("pk", flat=True)[:most])
    return [taken for pk in ids if (taken := take_one(instance, pk)) is not None]


@transaction.atomic
def take_one(instance: DelegateInstance, task_id: UUID, *, now: datetime | None = None) -> Taken | None:
    """Take one task; None where another was faster, or its owner does not want it done any more."""
    now = now or database_now()
    if not may_run_beside_others(instance, task_id):
        return None
    # The condition is all there is to it: who changes the row has the task.
    claimed = DelegateTask.objects.filter(
        pk=task_id,
        status=DelegateTask.Status.QUEUED,
        offered_to=instance.delegate_id,
        abort_requested=False,
        deadline__gt=now,
    ).update(
        status=DelegateTask.Status.STARTED,
        fence=F("fence") + 1,
        attempts=F("attempts") + 1,
        instance=instance,
        instance_name=f"{instance.delegate.name} on {called(instance)}"[:400],
        lease_until=now + LEASE,
        started_at=now,
        next_sequence=0,
        log_bytes_left=None,
        log_throttled=False,
        reason="",
    )
    if not claimed:
        return None
    task_changed(task_id)
    task = DelegateTask.objects.select_related("connector", "scope").get(pk=task_id)
    payload = _payload(task)
    if payload is None:
        DelegateTask.objects.filter(pk=task_id).update(
            status=DelegateTask.Status.ABORTED, reason=WITHDRAWN, finished_at=now, lease_until=None
        )
        return None
    if task.attempts > 1:
        # What an attempt wrote that nobody will finish would stand before the lines of this one.
        TaskLogChunk.objects.filter(task=task).delete()
    asked = asked_of(task.kind, payload.params)
    TaskAttempt.objects.create(task=task, fence=task.fence, instance=instance, at=now, asked=asked)
    return Taken(task, payload)


def _may_take(instance: DelegateInstance) -> bool:
    delegate = instance.delegate
    return (
        instance.status == DelegateInstance.Status.REGISTERED
        and not delegate.draining
        and delegate.admission == Delegate.Admission.ENABLED
    )


def _payload(task: DelegateTask) -> Payload | None:
    owner = owner_of(task)
    if owner is not None:
        return owner.acquire(task)
    params: Mapping[str, Any] = json.loads(task.payload)
    return Payload(params)
