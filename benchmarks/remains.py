"""Fills a database with what a busy month leaves beside executions: approvals, delegate tasks and drift."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.utils import timezone

from benchmarks.copies import like, store
from delegates.models import DelegateEvent, DelegateTask, InstanceSample
from deployments.models import Approval, StepExecution
from inventory.models.drift import Drift, DriftComparison
from inventory.models.instances import EcsServiceRecord

TASKS, QUEUED, WEEK = 50_000, 200, timedelta(days=7)
DELEGATE_EVENTS, SAMPLES = 20_000, 1_500
APPROVALS, WAITING = 5_000, 40
# What differs of each ECS service, and what did.
FIELDS, EARLIER = 5, 20


def leave() -> None:
    """Copy what a world has of each until it is much, over a week or a month."""
    now = timezone.now()
    task, event = DelegateTask.objects.earliest("queued_at"), DelegateEvent.objects.earliest("at")
    store(DelegateTask, _tasks(task, now))
    each = WEEK / DELEGATE_EVENTS
    store(DelegateEvent, (like(event, at=now - number * each) for number in range(DELEGATE_EVENTS)))
    sample = InstanceSample.objects.earliest("at")
    minutes = (now - timedelta(minutes=number) for number in range(1, SAMPLES))
    store(InstanceSample, (like(sample, at=at) for at in minutes))
    store(Approval, _approvals(Approval.objects.earliest("requested_at"), now))
    _drift(DriftComparison.objects.earliest("pk"), now)


def _tasks(task: DelegateTask, now: datetime) -> Iterator[DelegateTask]:
    """The newest wait for a delegate that nobody runs; the others have ended, one in fifty badly."""
    for number in range(TASKS):
        at = now - WEEK * (number / TASKS)
        ended = {"started_at": at, "finished_at": at + timedelta(seconds=2), "lease_until": None}
        if number < QUEUED:
            waits = {"status": "QUEUED", "reason": "No delegate has the tag x.", "instance": None}
            yield like(task, pk=uuid.uuid4(), queued_at=at, deadline=now + WEEK, **waits)
        else:
            status = "FAILED" if number % 50 == 0 else "SUCCEEDED"
            yield like(task, pk=uuid.uuid4(), queued_at=at, status=status, **ended)


def _approvals(approval: Approval, now: datetime) -> Iterator[Approval]:
    """One in each of many executions; the first of them still wait."""
    steps = StepExecution.objects.filter(section="EXECUTION", position=0).exclude(pk=approval.step_id)
    found = steps.order_by("-pk").values_list("pk", "stage__execution")[:APPROVALS]
    for number, (step, execution) in enumerate(found):
        status = Approval.Status.WAITING if number < WAITING else Approval.Status.APPROVED
        of = {"step_id": step, "execution_id": execution}
        at = now - timedelta(hours=number)
        yield like(approval, pk=uuid.uuid4(), asked_at=at, status=status, **of)


def _drift(first: DriftComparison, now: datetime) -> None:
    """Every ECS service that is deployed differs in some fields, and has before."""
    others = EcsServiceRecord.objects.filter(comparison=None).exclude(service=None).order_by("pk")
    made = DriftComparison.objects.bulk_create(like(first, ecs_service=one) for one in others)
    store(Drift, _fields(Drift.objects.earliest("pk"), [first, *made], now))


def _fields(drift: Drift, comparisons: list[DriftComparison], now: datetime) -> Iterator[Drift]:
    for one in comparisons:
        for number in range(FIELDS):
            yield like(drift, comparison=one, path=f"field{number}", detected_at=now)
        for number in range(EARLIER):
            at = now - timedelta(hours=number)
            yield like(drift, comparison=one, path=f"field{number}", detected_at=at, resolved_at=at)
