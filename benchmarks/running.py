"""Rows of sync: ECS services with tasks and events; and long logs."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, cycle

from django.db import connection, transaction
from django.db.models import F, Sum
from django.utils import timezone

from benchmarks.copies import copy_row, store
from catalog.models import Infrastructure, Service
from deployments import log
from deployments.models import Execution, LogChunk, StepExecution
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster

INSTANCES, LINES, EVENTS_EACH = 50_000, 5_000_000, 100
# ECS services that Slipway deploys, and those of the same cluster that it does not.
SERVICES, UNKNOWN = 500, 200
# Environments of a project that something runs in.
ENVIRONMENTS = 3
# The service that one looks at has this many of the tasks.
LARGEST = 2_000
# Tasks that have stopped, over the month that they are kept.
STOPPED, DAYS = 20_000, 30
# Lines of the longest log.
LONGEST_LOG, COMMIT = 200_000, 500


def create_inventory(service: Service) -> None:
    """Create ECS services and tasks for every service in its scope, most for `service`."""
    cluster, task = SyncedCluster.objects.earliest("pk"), ServiceInstance.objects.earliest("pk")
    first, places = EcsServiceRecord.objects.earliest("pk"), _list_infrastructures()
    other_services = cycle(Service.objects.exclude(pk=service.pk).filter(scope__in=places).order_by("pk"))
    created_records = EcsServiceRecord.objects.bulk_create(
        copy_row(
            first,
            name=f"ecs{number}",
            service=other_service,
            infrastructure_id=next(places[other_service.scope_id]),
        )
        for number, other_service in zip(range(1, SERVICES), other_services, strict=False)
    )
    EcsServiceRecord.objects.bulk_create(
        copy_row(first, name=f"unknown{number}", service=None, infrastructure=None)
        for number in range(UNKNOWN)
    )
    store(ServiceInstance, _build_running_tasks(task, [first, *created_records], cluster))
    store(ServiceInstance, _build_stopped_tasks(task, [first, *created_records], cluster))
    store(EcsServiceEvent, _build_events([first, *created_records]))


def _list_infrastructures() -> dict[int, Iterator[int]]:
    """Return a cycle of infrastructures for each scope."""
    infrastructures: defaultdict[int, list[int]] = defaultdict(list)
    for scope, pk in Infrastructure.objects.order_by("pk").values_list("environment__scope", "pk"):
        infrastructures[scope].append(pk)
    return {scope: cycle(keys[:ENVIRONMENTS]) for scope, keys in infrastructures.items()}


def _build_running_tasks(
    task: ServiceInstance, services: list[EcsServiceRecord], cluster: SyncedCluster
) -> Iterator[ServiceInstance]:
    numbers, each = count(1), (INSTANCES - LARGEST) // max(len(services) - 1, 1)
    for service in services:
        for number in (next(numbers) for _ in range(LARGEST if service == services[0] else each)):
            yield _build_task(task, service, cluster, number)


def _build_stopped_tasks(
    task: ServiceInstance, services: list[EcsServiceRecord], cluster: SyncedCluster
) -> Iterator[ServiceInstance]:
    """Yield tasks that stopped one after the other, each after an hour."""
    now = timezone.now()
    for number, service in zip(range(STOPPED), cycle(services), strict=False):
        at = now - timedelta(days=DAYS) * (1 - number / STOPPED)
        states = {
            "last_status": "STOPPED",
            "desired_status": "STOPPED",
            "stop_code": "ServiceSchedulerInitiated",
        }
        reason = f"Scaling activity initiated by (deployment ecs-svc/{number:019d})"
        times = {
            "created_at": at - timedelta(hours=1),
            "started_at": at - timedelta(hours=1),
            "stopped_at": at,
        }
        yield copy_row(
            _build_task(task, service, cluster, INSTANCES + number), stopped_reason=reason, **states, **times
        )


def _build_task(
    task: ServiceInstance, record: EcsServiceRecord, cluster: SyncedCluster, number: int
) -> ServiceInstance:
    return copy_row(
        task,
        ecs_service=record,
        cluster=cluster,
        arn=f"{task.arn}/{number}",
        task_id=f"{number:032x}",
        image=f"registry/app:{number % 3}",
        zone=f"us-east-1{'abc'[number % 3]}",
        created_at=task.created_at + timedelta(milliseconds=number),
    )


def _build_events(services: list[EcsServiceRecord]) -> Iterator[EcsServiceEvent]:
    now = timezone.now()
    for number in range(1, EVENTS_EACH):
        for service in services:
            yield EcsServiceEvent(
                ecs_service=service,
                event=f"{number}",
                at=now - timedelta(hours=number * 12 + service.pk / 1000),
                message=f"(service {service.name}) has reached a steady state.",
            )


def lengthen_logs(longest: Execution) -> int:
    """Add log lines, 5 million in all, and return their number."""
    _lengthen(longest)
    length, shift = F("last") - F("first") + 1, 1_000_000
    while (lines := LogChunk.objects.aggregate(lines=Sum(length))["lines"] or 0) and lines < LINES:
        table = connection.ops.quote_name(LogChunk._meta.db_table)
        with connection.cursor() as cursor:
            # The same blocks behind themselves.
            cursor.execute(
                f"INSERT INTO {table} (execution_id, first, last, packed, is_packed) "
                f"SELECT execution_id, first + {shift}, last + {shift}, packed, is_packed FROM {table} "
                "WHERE execution_id <> %s",
                [longest.pk.hex if connection.vendor == "sqlite" else longest.pk],
            )
        shift *= 2
    return lines


def _lengthen(execution: Execution) -> None:
    step = StepExecution.objects.filter(stage__execution=execution).earliest("position")
    line = log.NewLogLine(
        at=timezone.now(), step_id=step.pk, step=step.identifier, unit="Deploy", level="info", text="x" * 140
    )
    for _ in range(LONGEST_LOG // COMMIT):
        with transaction.atomic():
            log.store_lines(execution.pk, [line] * COMMIT)
