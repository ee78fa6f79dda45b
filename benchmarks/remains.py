"""Rows of a busy month: approvals, delegate tasks and drift."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.utils import timezone

from benchmarks.copies import copy_row, store
from delegates.models import DelegateEvent, DelegateTask, InstanceSample
from deployments.models import Approval, StepExecution
from inventory.models.drift import Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord

TASKS, QUEUED, WEEK = 50_000, 200, timedelta(days=7)
DELEGATE_EVENTS, SAMPLES = 20_000, 1_500
APPROVALS, WAITING = 5_000, 40
# Open and resolved drift fields of each ECS service.
FIELDS, EARLIER = 5, 20


def create_other_rows() -> None:
    """Copy one row of each kind many times, over a week or a month."""
    now = timezone.now()
    task, event = DelegateTask.objects.earliest("queued_at"), DelegateEvent.objects.earliest("at")
    store(DelegateTask, _build_tasks(task, now))
    each = WEEK / DELEGATE_EVENTS
    store(DelegateEvent, (copy_row(event, at=now - number * each) for number in range(DELEGATE_EVENTS)))
    sample = InstanceSample.objects.earliest("at")
    minutes = (now - timedelta(minutes=number) for number in range(1, SAMPLES))
    store(InstanceSample, (copy_row(sample, at=at) for at in minutes))
    store(Approval, _build_approvals(Approval.objects.earliest("requested_at"), now))
    _create_drift(DriftComparison.objects.earliest("pk"), now)


def _build_tasks(task: DelegateTask, now: datetime) -> Iterator[DelegateTask]:
    """Yield tasks: the newest wait for a missing delegate, the others ended, one in fifty failed."""
    for number in range(TASKS):
        at = now - WEEK * (number / TASKS)
        times = {"started_at": at, "finished_at": at + timedelta(seconds=2), "lease_until": None}
        if number < QUEUED:
            waits = {"status": "QUEUED", "reason": "No delegate has the tag x.", "instance": None}
            yield copy_row(task, pk=uuid.uuid4(), queued_at=at, deadline=now + WEEK, **waits)
        else:
            status = "FAILED" if number % 50 == 0 else "SUCCEEDED"
            yield copy_row(task, pk=uuid.uuid4(), queued_at=at, status=status, **times)


def _build_approvals(approval: Approval, now: datetime) -> Iterator[Approval]:
    """Yield one approval for each of many executions; the first ones still wait."""
    steps = StepExecution.objects.filter(section="EXECUTION", position=0).exclude(pk=approval.step_id)
    pairs = steps.order_by("-pk").values_list("pk", "stage__execution")[:APPROVALS]
    for number, (step, execution) in enumerate(pairs):
        status = Approval.Status.WAITING if number < WAITING else Approval.Status.APPROVED
        of = {"step_id": step, "execution_id": execution}
        at = now - timedelta(hours=number)
        yield copy_row(approval, pk=uuid.uuid4(), requested_at=at, status=status, **of)


def _create_drift(first: DriftComparison, now: datetime) -> None:
    """Create drift for every deployed ECS service, open and resolved."""
    records = EcsServiceRecord.objects.filter(comparison=None).exclude(service=None).order_by("pk")
    comparisons = DriftComparison.objects.bulk_create(
        copy_row(first, ecs_service=record) for record in records
    )
    store(Drift, _build_drifts(Drift.objects.earliest("pk"), [first, *comparisons], now))


def _build_drifts(drift: Drift, comparisons: list[DriftComparison], now: datetime) -> Iterator[Drift]:
    for comparison in comparisons:
        for number in range(FIELDS):
            yield copy_row(drift, comparison=comparison, path=f"field{number}", detected_at=now)
        for number in range(EARLIER):
            at = now - timedelta(hours=number)
            yield copy_row(
                drift, comparison=comparison, path=f"field{number}", detected_at=at, resolved_at=at
            )
