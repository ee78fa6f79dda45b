"""Command `python -m benchmarks.routing_times`: routing decisions on the database of DATABASE_URL."""

import os

os.environ.update(DJANGO_SETTINGS_MODULE="tests.settings", SLIPWAY_MODE="embedded")

import django

django.setup()

import json
import logging
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.copies import store
from benchmarks.goals import Figure
from benchmarks.history import analyze
from benchmarks.servers import create_database
from delegates.models import (
    Delegate,
    DelegateConfiguration,
    DelegateInstance,
    DelegateTag,
    DelegateTask,
    RoutingDecision,
)
from delegates.models.tags import build_tags
from delegates.queries.routing_candidates import build_routing_request, read_candidate_pool
from delegates.routing.decisions import decide_route
from delegates.task_queue import route_new_task, route_waiting_tasks
from rbac.models import Scope
from tests.fixtures.delegates import make_task
from web.http.gc_tuning import collect_garbage, configure_garbage_collection

DELEGATES = int(os.environ.get("ROUTING_DELEGATES", "10000"))
ROUNDS = int(os.environ.get("ROUTING_ROUNDS", "200"))
BASE_ROUNDS = int(os.environ.get("ROUTING_BASE_ROUNDS", "3"))
BATCH = 100
TAG_SHARE = 100
# Only tasks with one of these words in their names.
ONLY = os.environ.get("ROUTING_WORK", "").split()
GOAL_MS = 20
ACCOUNT, OTHER_ACCOUNT = "111111111111", "222222222222"
# One moment for all rounds, so that no heartbeat is late while the measurement runs.
NOW = timezone.now()


@dataclass(frozen=True)
class Work:
    """One sort of task: `fields` are its columns."""

    name: str
    fields: dict[str, Any]


WORK = (
    Work("any delegate", {}),
    Work("a tag of all delegates", {"selectors": ["linux"]}),
    Work("a tag of every hundredth", {"selectors": ["Zone7"]}),
    Work("one delegate by its name", {"selectors": ["delegate-4711"]}),
    Work("another AWS account: nobody", {"aws_account": OTHER_ACCOUNT}),
    Work("a tag of nobody", {"selectors": ["gpu"]}),
)


def create_fleet(scope: Scope) -> None:
    """Store the delegates of one scope, each with one connected instance."""
    primary = DelegateConfiguration.objects.get(is_primary=True)
    store(
        Delegate,
        (
            Delegate(
                scope=scope,
                name=f"delegate-{number}",
                tags=["linux", f"zone{number % TAG_SHARE}"],
                configuration=primary,
                aws_account=ACCOUNT,
                spec={"network": {"subnets": ["subnet-0123456789abcdef0"] * 6}, "text": "x" * 800},
            )
            for number in range(DELEGATES)
        ),
    )
    store(
        DelegateInstance,
        (
            DelegateInstance(
                delegate=delegate,
                key=f"host-{delegate.pk}/10.0.0.1",
                hostname=f"host-{delegate.pk}",
                connection=DelegateInstance.Connection.WEBSOCKET,
                last_heartbeat_at=NOW,
                registered_at=NOW,
                tags=["agent"],
            )
            for delegate in Delegate.objects.filter(is_built_in=False)
        ),
    )
    instances = DelegateInstance.objects.filter(delegate__is_built_in=False).select_related("delegate")
    rows = (
        row
        for instance in instances
        for row in (*build_tags(instance.delegate), *build_tags(instance.delegate, instance))
    )
    store(DelegateTag, rows)
    analyze()


def _create_tasks(scope: Scope, work: Work, count: int = 1) -> list[DelegateTask]:
    return [make_task(scope, deadline=NOW + timedelta(days=1), **work.fields) for _ in range(count)]


def _finish_tasks(now: datetime) -> None:
    """End the tasks of a round where they were offered, so that the next round finds no queue."""
    for task in DelegateTask.objects.filter(status="QUEUED").select_related("offered_to"):
        instance = task.offered_to.instances.get() if task.offered_to else None
        DelegateTask.objects.filter(pk=task.pk).update(
            status="SUCCEEDED", instance=instance, offered_to=None, offered_until=None, finished_at=now
        )


@dataclass(frozen=True)
class DecisionCosts:
    """Milliseconds of each round, and of the processor; statements and stored bytes of the last one."""

    times: list[float]
    cpu: list[float]
    statements: int
    stored_bytes: int


def _measure(scope: Scope, work: Work) -> DecisionCosts:
    times, cpu = [], []
    for _ in range(ROUNDS):
        (task,) = _create_tasks(scope, work)
        collect_garbage()
        began, used = time.perf_counter(), time.thread_time()
        route_new_task(task.pk, NOW)
        times.append((time.perf_counter() - began) * 1000)
        cpu.append((time.thread_time() - used) * 1000)
        _finish_tasks(NOW)
    (task,) = _create_tasks(scope, work)
    with CaptureQueriesContext(connection) as context:
        route_new_task(task.pk, NOW)
    rows = RoutingDecision.objects.filter(task=task).values_list("rows", flat=True)
    size = sum(len(json.dumps(row)) for row in rows)
    _finish_tasks(NOW)
    return DecisionCosts(times, cpu, len(context), size)


def _measure_rules(scope: Scope, work: Work) -> float:
    """Return the median milliseconds of the plain rules over all delegates."""
    times = []
    for _ in range(BASE_ROUNDS):
        (task,) = _create_tasks(scope, work)
        began = time.perf_counter()
        decide_route(build_routing_request(task), read_candidate_pool([task], NOW).for_task(task))
        times.append((time.perf_counter() - began) * 1000)
        _finish_tasks(NOW)
    return statistics.median(times)


def _measure_batch(scope: Scope, chosen: Sequence[Work]) -> tuple[float, int]:
    """Return the milliseconds for each task of a batch of mixed tasks, and its statements."""
    for work in chosen:
        _create_tasks(scope, work, BATCH // len(chosen))
    count = DelegateTask.objects.filter(status="QUEUED").count()
    with CaptureQueriesContext(connection) as context:
        began = time.perf_counter()
        route_waiting_tasks(NOW)
        spent = time.perf_counter() - began
    _finish_tasks(NOW)
    return spent * 1000 / count, len(context)


def main() -> None:
    """Print the table of one database."""
    logging.disable(logging.INFO)
    create_database()
    call_command("migrate", verbosity=0)
    scope = Scope.objects.account()
    create_fleet(scope)
    configure_garbage_collection()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\n{connection.vendor}, {DELEGATES:,} delegates, {ROUNDS} rounds; load of the machine {load}")
    print(f"{'':<30}{'statements':>11}{'p50':>8}{'p99 ms':>9}{'cpu':>7}{'KiB stored':>12}{'all rules':>18}")
    chosen = [work for work in WORK if not ONLY or any(word in work.name for word in ONLY)]
    slowest = 0.0
    for work in chosen:
        costs = _measure(scope, work)
        cuts = statistics.quantiles(costs.times, n=100, method="inclusive")
        slowest = max(slowest, cuts[98])
        verdict = "" if cuts[98] <= GOAL_MS else "  missed"
        base = _measure_rules(scope, work)
        print(
            f"{work.name:<30}{costs.statements:>11}{cuts[49]:>8.1f}{cuts[98]:>9.1f}"
            f"{statistics.median(costs.cpu):>7.1f}{costs.stored_bytes / 1024:>12.1f}"
            f"{base:>15.0f} ms{verdict}"
        )
    if not ONLY:
        print(Figure("P3 routing", slowest, connection.vendor).to_line())
    each, statements = _measure_batch(scope, chosen)
    print(f"a mixed batch of about {BATCH}: {each:.2f} ms for each task, {statements} statements")


if __name__ == "__main__":
    main()
