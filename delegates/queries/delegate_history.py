"""What a delegate did and what happened to it: tasks, events, lists, refusals, a day in numbers."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean as mean

from django.db.models import F, QuerySet

from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateEvent,
    DelegateInstance,
    DelegateTask,
    InstanceSample,
)

DAY = timedelta(days=1)
QUARTER = timedelta(minutes=15)
# Of a delegate with more instances, a day is drawn for those that were heard last.
MOST_MEASURED = 10
MOST_TASKS = 50
MOST_REFUSALS = 5
MOST_ENTRIES = 100


Sample = tuple[float, float, int]


@dataclass(frozen=True)
class Quarter:
    """A quarter of an hour: CPU in percent as a mean, memory in MiB and tasks as the sum of all instances."""

    at: datetime
    cpu: float
    memory: float
    running: float


def tasks_of(delegate: Delegate) -> list[DelegateTask]:
    """What runs now, then what ran last."""
    given = DelegateTask.objects.filter(instance__delegate=delegate).defer("payload", "result", "error")
    with_instance = given.select_related("instance").order_by("-queued_at")
    started = with_instance.filter(status=DelegateTask.Status.STARTED)[:MOST_TASKS]
    over = with_instance.exclude(status=DelegateTask.Status.STARTED)[:MOST_TASKS]
    return [*started, *over]


def allowed(delegate: Delegate, now: datetime) -> QuerySet[AllowlistEntry]:
    """What it reached within six hours."""
    return delegate.allowed.filter(expires_at__gt=now).order_by("-expires_at")[:MOST_ENTRIES]


def blocked(delegate: Delegate, now: datetime) -> QuerySet[BlocklistEntry]:
    """What it is not tried for now."""
    return delegate.blocked.filter(expires_at__gt=now).order_by("-expires_at")[:MOST_ENTRIES]


def refusals(delegate: Delegate) -> QuerySet[DelegateEvent]:
    """The last registrations under its name that were refused, also those that nothing could be said of."""
    found = DelegateEvent.objects.filter(
        scope=delegate.scope_id, name=delegate.name, kind=DelegateEvent.Kind.REFUSED
    )
    return found.order_by("-at")[:MOST_REFUSALS]


def day_of(delegate: Delegate, now: datetime) -> list[Quarter]:
    """The last 24 hours of the instances heard last, by quarters of an hour that have a sample."""
    heard_last = F("last_heartbeat_at").desc(nulls_last=True)
    instances = DelegateInstance.objects.filter(delegate=delegate).order_by(heard_last)[:MOST_MEASURED]
    samples = InstanceSample.objects.filter(
        instance__in=list(instances.values_list("pk", flat=True)), at__gt=now - DAY
    )
    columns = ("instance_id", "at", "cpu_process", "memory_mib", "running")
    return list(_quarters(samples.values_list(*columns)))


def _quarters(samples: Iterable[tuple[int, datetime, float, float, int]]) -> Iterable[Quarter]:
    found: dict[int, dict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for instance, at, cpu, memory, running in samples:
        found[int(at.timestamp() // QUARTER.total_seconds())][instance].append((cpu, memory, running))
    for number, instances in sorted(found.items()):
        means = [[mean(column) for column in zip(*rows, strict=True)] for rows in instances.values()]
        cpus, memories, tasks = zip(*means, strict=True)
        at = datetime.fromtimestamp(number * QUARTER.total_seconds(), tz=UTC)
        yield Quarter(at, mean(cpus), sum(memories), sum(tasks))
