"""Leases of delegate tasks: acquisition with a fencing token, renewal, expiry, requeueing."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from delegates.live import publish_task_changed
from delegates.models import Delegate, DelegateInstance, DelegateTask, TaskAttempt, TaskLogChunk
from delegates.protocol.events import get_instance_label
from delegates.protocol.limits import DEADLINE_GRACE, LEASE, SEND_WITHIN_SECONDS
from delegates.protocol.notices import notify_abort
from delegates.protocol.requests import AgentReply, AgentRequest
from delegates.protocol.result_schemas import get_result_variant
from delegates.protocol.sessions import get_session_instance
from delegates.state_log import log_task_status
from delegates.task_owners import TaskPayload, get_task_owner
from guards.limits import AGENT_TASKS
from web.clock import get_database_time
from web.database_guards import require_current_database

LOST_CODE = "DELEGATE_LOST"
STARTED = DelegateTask.Status.STARTED


@dataclass(frozen=True)
class LeaseReport:
    """Lease results of the tasks that an instance reports as its own."""

    lost: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


def renew_leases_request(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/tasks/renew: renew the instance's leases, and list its lost tasks."""
    instance = get_session_instance(request.bearer)
    report = renew_leases(
        instance.pk, request.fields().list_task_fences("tasks", AGENT_TASKS), now=get_database_time()
    )
    return AgentReply({"lost": list(report.lost), "aborted": list(report.aborted)})


def renew_leases(instance_id: int, reported: Mapping[UUID, int], *, now: datetime) -> LeaseReport:
    """Renew the leases of tasks that an instance has under these fences."""
    if not reported:
        return LeaseReport()
    own = DelegateTask.objects.filter(
        pk__in=reported, instance=instance_id, status=STARTED, deadline__gt=now - DEADLINE_GRACE
    )
    current = {pk: (fence, aborts) for pk, fence, aborts in own.values_list("pk", "fence", "abort_requested")}
    matching = [pk for pk, fence in reported.items() if pk in current and current[pk][0] == fence]
    # An expired lease that was not swept yet is not renewed: its task may be assigned again.
    alive = set(matching) - _list_expired(matching, instance_id, now)
    DelegateTask.objects.filter(
        pk__in=alive, instance=instance_id, status=STARTED, lease_until__gt=now
    ).update(lease_until=now + LEASE)
    return LeaseReport(
        lost=tuple(str(pk) for pk in reported if pk not in alive),
        aborted=tuple(str(pk) for pk in alive if current[pk][1]),
    )


def _list_expired(task_ids: Iterable[UUID], instance_id: int, now: datetime) -> set[UUID]:
    ended = DelegateTask.objects.filter(pk__in=list(task_ids), instance=instance_id, lease_until__lte=now)
    return set(ended.values_list("pk", flat=True))


def sweep_expired_leases(*, now: datetime | None = None, most: int = 500) -> int:
    """Take tasks from instances with expired leases, and return their number."""
    now = now or get_database_time()
    due = DelegateTask.objects.filter(status=STARTED, lease_until__lte=now).order_by("lease_until")
    return sum(_release_lost_task(pk, now) for pk in list(due.values_list("pk", flat=True)[:most]))


def abort_overdue_tasks(now: datetime, *, most: int = 500) -> int:
    """Request an abort of tasks past their deadlines; agents that do not comply lose them a minute later."""
    overdue = DelegateTask.objects.filter(status=STARTED, deadline__lte=now, abort_requested=False)
    tasks = list(overdue.values_list("pk", "instance", "fence")[:most])
    for pk, instance_id, fence in tasks:
        with transaction.atomic():
            updated = overdue.filter(pk=pk, fence=fence).update(abort_requested=True)
            if updated and instance_id is not None:
                notify_abort(instance_id, pk)
    return len(tasks)


@transaction.atomic
def _release_lost_task(task_id: UUID, now: datetime) -> bool:
    task = DelegateTask.objects.select_related("instance__delegate").get(pk=task_id)
    is_requeued = task.repeatable and not task.abort_requested and task.deadline > now
    unchanged = DelegateTask.objects.filter(
        pk=task_id,
        status=STARTED,
        fence=task.fence,
        lease_until=task.lease_until,
        lease_until__lte=now,
        # Nobody could take a task that is aborted meanwhile.
        abort_requested=task.abort_requested,
    )
    changed = unchanged.update(
        **(
            build_requeue_values(f"{task.instance_name} was lost. It is queued again.")
            if is_requeued
            else _build_lost_values(task, now)
        )
    )
    if not changed:
        return False
    publish_task_changed(task_id)
    task.refresh_from_db()
    log_task_status(task, previous=STARTED)
    if (owner := get_task_owner(task)) is not None:
        (owner.requeue if is_requeued else owner.record_lost)(task)
    return True


def build_requeue_values(reason: str) -> dict[str, object]:
    """Return the values of a task that its instance has no longer and another one may take."""
    return {
        "status": DelegateTask.Status.QUEUED,
        "instance": None,
        "lease_until": None,
        "offered_to": None,
        "offered_until": None,
        "started_at": None,
        "reason": reason,
    }


def _build_lost_values(task: DelegateTask, now: datetime) -> dict[str, object]:
    aborted = task.abort_requested and task.repeatable
    text = (
        f"{task.instance_name} was lost while it ran this task: its progress is unknown."
        if not task.repeatable
        else f"{task.instance_name} was lost while it ran this task."
    )
    return {
        "status": DelegateTask.Status.ABORTED if aborted else DelegateTask.Status.FAILED,
        "lease_until": None,
        "finished_at": now,
        "reason": text,
        "error": {"code": LOST_CODE, "message": text, "capability": False},
    }


def end_leases(instances: Iterable[DelegateInstance], *, now: datetime) -> None:
    """Expire the leases of untrusted instances now; the next sweep takes their tasks."""
    ids = [instance.pk for instance in instances]
    DelegateTask.objects.filter(instance__in=ids, status=STARTED, lease_until__gt=now).update(lease_until=now)


def is_bound_to_project(instance: DelegateInstance) -> bool:
    """Return whether an instance may run scripts of one project only."""
    return not instance.is_isolated and not instance.delegate.shares_scripts


def filter_by_bound_project(
    instance: DelegateInstance, tasks: QuerySet[DelegateTask]
) -> QuerySet[DelegateTask]:
    """Return the tasks that an instance may take under its project isolation.

    `bind_to_project` decides: the instance was read with its session, and may have been bound since.
    """
    if not instance.script_scope or not is_bound_to_project(instance):
        return tasks
    return tasks.filter(~Q(kind__in=DelegateTask.ISOLATED) | Q(scope__path=instance.script_scope))


class ProjectBinding(Enum):
    """Effect of an assignment on the project whose scripts an instance runs."""

    UNCHANGED = auto()
    NEW = auto()
    REFUSED = auto()


def bind_to_project(instance: DelegateInstance, task_id: UUID) -> ProjectBinding:
    """Bind an instance to the project of the next task, unless it must not take the task.

    Call it within the transaction of the assignment, which is rolled back after a refusal.
    """
    if not is_bound_to_project(instance):
        return ProjectBinding.UNCHANGED
    row = DelegateTask.objects.filter(pk=task_id).values_list("kind", "scope__path").first()
    if row is None or row[0] not in DelegateTask.ISOLATED:
        return ProjectBinding.UNCHANGED
    kind, project = row
    is_script = kind in DelegateTask.RUNS_CODE
    own = DelegateInstance.objects.filter(pk=instance.pk)
    is_new = is_script and bool(own.filter(script_scope="").update(script_scope=project))
    # Also without a change: concurrent assignments of a script and a fetch must run one after the other.
    free = own.filter(script_scope__in=("", project))
    allowed = is_new or bool(free.update(script_scope=F("script_scope")))
    if not allowed or (is_script and _runs_other_projects(instance, project)):
        transaction.set_rollback(True)
        return ProjectBinding.REFUSED
    return ProjectBinding.NEW if is_new else ProjectBinding.UNCHANGED


def _runs_other_projects(instance: DelegateInstance, project: str) -> bool:
    running = DelegateTask.objects.filter(
        instance=instance, status=DelegateTask.Status.STARTED, kind__in=DelegateTask.ISOLATED
    )
    return running.exclude(scope__path=project).exists()


MAX_TASKS_PER_ACQUIRE = 10
WITHDRAWN_REASON = "It was withdrawn before a delegate accepted it."


@dataclass(frozen=True)
class AcquiredTask:
    """A task assigned to an instance, with its parameters."""

    task: DelegateTask
    payload: TaskPayload = field(repr=False)

    def build_document(self) -> dict[str, Any]:
        """Return the task in the agent's format; only here secrets leave the manager."""
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
            # For log lines of the agent; agents without them ignore it.
            "trace_context": self.task.trace_context,
        }


def acquire_tasks(instance: DelegateInstance, *, free: int) -> list[AcquiredTask]:
    """Assign to an instance up to `free` of the tasks offered to its delegate."""
    if not _can_acquire(instance):
        return []
    most = min(free, instance.capacity, MAX_TASKS_PER_ACQUIRE)
    queued = DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED, offered_to=instance.delegate_id)
    offered = filter_by_bound_project(instance, queued)
    ids = list(offered.order_by("queued_at", "pk").values_list("pk", flat=True)[:most]) if most > 0 else []
    # Most polls end without a task.
    if not ids:
        return []
    running_count = DelegateTask.objects.filter(instance=instance, status=DelegateTask.Status.STARTED).count()
    ids = ids[: max(instance.capacity - running_count, 0)]
    if ids:
        # In a restored database they may have run already.
        require_current_database()
    return [acquired for pk in ids if (acquired := acquire_task(instance, pk)) is not None]


@transaction.atomic
def acquire_task(
    instance: DelegateInstance, task_id: UUID, *, now: datetime | None = None
) -> AcquiredTask | None:
    """Assign one task; return None if another instance has it or its owner withdraws it."""
    now = now or get_database_time()
    binding = bind_to_project(instance, task_id)
    if binding is ProjectBinding.REFUSED:
        return None
    # The condition is the lock: the process that changes the row has the task.
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
        instance_name=f"{instance.delegate.name} on {get_instance_label(instance)}"[:400],
        lease_until=now + LEASE,
        started_at=now,
        next_sequence=0,
        log_bytes_left=None,
        log_throttled=False,
        reason="",
    )
    if not claimed:
        # It runs nothing of that project, so it must stay free for others.
        transaction.set_rollback(True)
        return None
    publish_task_changed(task_id)
    task = DelegateTask.objects.select_related("connector", "scope").get(pk=task_id)
    payload = _build_payload(task)
    if payload is None:
        DelegateTask.objects.filter(pk=task_id).update(
            status=DelegateTask.Status.ABORTED, reason=WITHDRAWN_REASON, finished_at=now, lease_until=None
        )
        task.status = DelegateTask.Status.ABORTED
        log_task_status(task, previous=DelegateTask.Status.QUEUED)
        if binding is ProjectBinding.NEW:
            DelegateInstance.objects.filter(pk=instance.pk).update(script_scope="")
        return None
    log_task_status(task, previous=DelegateTask.Status.QUEUED)
    if task.attempts > 1:
        # Log lines of a lost attempt would precede the lines of this one.
        TaskLogChunk.objects.filter(task=task).delete()
    # At the end: the row of the delegate stays locked until the commit.
    Delegate.objects.filter(pk=instance.delegate_id, last_assigned_at__lt=task.queued_at).update(
        last_assigned_at=task.queued_at
    )
    variant = get_result_variant(task.kind, payload.params)
    TaskAttempt.objects.create(task=task, fence=task.fence, instance=instance, at=now, variant=variant)
    return AcquiredTask(task, payload)


def _can_acquire(instance: DelegateInstance) -> bool:
    delegate = instance.delegate
    return (
        instance.status == DelegateInstance.Status.REGISTERED
        and not delegate.draining
        and delegate.admission == Delegate.Admission.ENABLED
    )


def _build_payload(task: DelegateTask) -> TaskPayload | None:
    owner = get_task_owner(task)
    if owner is not None:
        return owner.acquire(task)
    params: Mapping[str, Any] = json.loads(task.payload)
    return TaskPayload(params)
