"""Delegate tasks as lists, pages and documents show them; what they carry and bring back is never shown."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet

from delegates.models import Delegate, DelegateTask, TaskLogChunk
from delegates.offers import waiting
from guards.text import clean

VIEW = "core_delegate_view"
LINES = 1000
# What a task carries and brings back, which no list or page reads.
UNSHOWN = ("payload", "result")


@dataclass(frozen=True)
class Line:
    """One line that a task wrote, numbered from 1."""

    number: int
    at: datetime
    level: str
    text: str


@dataclass(frozen=True)
class Lines:
    """Some lines; `more` says that there are others after them already."""

    lines: list[Line]
    more: bool


def shown_tasks() -> QuerySet[DelegateTask]:
    """Tasks with what a list shows of them, in one query."""
    return DelegateTask.objects.defer(*UNSHOWN).select_related("scope", "offered_to", "instance__delegate")


def of_delegate(tasks: QuerySet[DelegateTask], delegate_id: int) -> QuerySet[DelegateTask]:
    """Only tasks that a delegate took or is offered."""
    return tasks.filter(Q(instance__delegate=delegate_id) | Q(offered_to=delegate_id))


def holder_of(task: DelegateTask) -> Delegate | None:
    """The delegate that has or had a task; None before one took it."""
    return task.instance.delegate if task.instance else None


def positions(tasks: Iterable[DelegateTask], now: datetime) -> dict[Any, int]:
    """The place in the queue of each task that waits and is offered to nobody; one query if any does."""
    asked = {task.pk for task in tasks if _waits(task, now)}
    if not asked:
        return {}
    queue = waiting(now).values_list("pk", flat=True)
    return {pk: place for place, pk in enumerate(queue, 1) if pk in asked}


def is_offered(task: DelegateTask, now: datetime) -> bool:
    """Whether a delegate may take a queued task at this moment."""
    until = task.offered_until if task.offered_to_id else None
    return task.status == DelegateTask.Status.QUEUED and until is not None and until > now


def _waits(task: DelegateTask, now: datetime) -> bool:
    return task.status == DelegateTask.Status.QUEUED and not is_offered(task, now)


def reached(task: DelegateTask) -> str:
    """The address that a connectivity check ended at, where it is known; of other tasks nothing is told."""
    if task.kind != DelegateTask.Kind.CHECK or task.status != DelegateTask.Status.SUCCEEDED:
        return ""
    answer = json.loads(task.result) if task.result else {}
    return str(answer.get("address") or "")


def lines_of(task: DelegateTask, after: int = 0, most: int = LINES) -> Lines:
    """The lines with higher numbers than `after`, at most so many."""
    chunks = TaskLogChunk.objects.filter(task=task, sequence__gte=_first_chunk(task, after))
    found: list[Line] = []
    for chunk in chunks.order_by("sequence").iterator(chunk_size=20):
        found += [line for line in _read(chunk) if line.number > after]
        if len(found) > most:
            return Lines(found[:most], more=True)
    return Lines(found, more=False)


def last_lines(task: DelegateTask, most: int = LINES) -> list[Line]:
    """The newest lines, the oldest of them first."""
    return lines_of(task, max(0, task.next_sequence - most), most).lines


def _first_chunk(task: DelegateTask, after: int) -> int:
    before = TaskLogChunk.objects.filter(task=task, sequence__lte=after).order_by("-sequence")
    return before.values_list("sequence", flat=True).first() or 0


def _read(chunk: TaskLogChunk) -> list[Line]:
    return [
        Line(
            number=number,
            at=datetime.fromtimestamp(line["t"] / 1000, UTC),
            level=line["level"],
            text=clean(line["text"]),
        )
        for number, line in enumerate(json.loads(chunk.lines), chunk.sequence + 1)
    ]
