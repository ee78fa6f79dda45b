"""Fills a database with what sync sees: ECS services, their tasks and events; and with long logs."""

import copy
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, islice
from typing import Any

from django.db import connection
from django.db.models import F, Sum
from django.utils import timezone

from deployments.models import Infrastructure, LogChunk, Service
from instances.models import SeenEvent, SeenService, ServiceInstance, SyncedCluster

INSTANCES, LINES, EVENTS_EACH = 50_000, 5_000_000, 100
# The service that one looks at has this many of the tasks.
LARGEST = 2_000
BATCH = 5_000


def run_everywhere(service: Service) -> None:
    """Let every service run in an infrastructure of its scope, `service` with the most tasks."""
    cluster, task = SyncedCluster.objects.earliest("pk"), ServiceInstance.objects.earliest("pk")
    places = dict(Infrastructure.objects.values_list("environment__scope", "pk"))
    first = SeenService.objects.earliest("pk")
    others = Service.objects.exclude(pk=service.pk).filter(scope__in=places)
    made = SeenService.objects.bulk_create(
        _like(first, name=f"ecs{one.pk}", service=one, infrastructure_id=places[one.scope_id])
        for one in others
    )
    _tasks(task, [first, *made], cluster)
    _events(first, made)


def _tasks(task: ServiceInstance, services: list[SeenService], cluster: SyncedCluster) -> None:
    numbers, each = count(1), (INSTANCES - LARGEST) // max(len(services) - 1, 1)
    rows = (
        _like(
            task,
            seen=one,
            cluster=cluster,
            arn=f"{task.arn}/{number}",
            task_id=f"{number:032x}",
            image=f"registry/app:{number % 3}",
            zone=f"us-east-1{'abc'[number % 3]}",
        )
        for one in services
        for number in (next(numbers) for _ in range(LARGEST if one == services[0] else each))
    )
    for some in _batched(rows, BATCH):
        ServiceInstance.objects.bulk_create(some)


def _events(first: SeenService, made: list[SeenService]) -> None:
    now = timezone.now()
    rows = (
        SeenEvent(
            seen=one,
            event=f"{number}",
            at=now - timedelta(hours=number * 12 + one.pk / 1000),
            message=f"(service {one.name}) has reached a steady state.",
        )
        for one in [first, *made]
        for number in range(1, EVENTS_EACH)
    )
    for some in _batched(rows, BATCH):
        SeenEvent.objects.bulk_create(some)


def lengthen_logs() -> int:
    """Copy the blocks of logs behind themselves until there are 5 million lines; how many there are."""
    length = F("last") - F("first") + 1
    shift = 1_000_000
    while (lines := LogChunk.objects.aggregate(lines=Sum(length))["lines"] or 0) and lines < LINES:
        table = connection.ops.quote_name(LogChunk._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} (execution_id, first, last, packed, is_packed) "
                f"SELECT execution_id, first + {shift}, last + {shift}, packed, is_packed FROM {table}"
            )
        shift *= 2
    return lines


def _batched(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while some := list(islice(rows, size)):
        yield some


def _like(row: Any, **changes: Any) -> Any:
    """A new row, not stored yet, that differs from `row` in `changes` only."""
    made = copy.copy(row)
    made._state = copy.copy(row._state)
    made._state.adding, made._state.fields_cache, made.pk = True, {}, None
    for name, value in changes.items():
        setattr(made, name, value)
    return made
