"""History of a delegate: tasks, refusals, reachability, load of a day, log, connectors."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean as mean

from django.db.models import F, QuerySet
from django.urls import reverse

from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateEvent,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    InstanceSample,
    RefusedInstance,
)
from rbac.policy import Principal, build_below_filter, filter_visible
from web.usages import ResourceUsage, ResourceUsages

DAY = timedelta(days=1)
QUARTER = timedelta(minutes=15)
# Limit of instances in the charts of a delegate: the most recent ones.
MAX_SAMPLED_INSTANCES = 10
MAX_TASKS = 50
MAX_REFUSALS = 5
MAX_LIST_ENTRIES = 100
Sample = tuple[float, float, int]


@dataclass(frozen=True)
class LoadQuarter:
    """Quarter of an hour: mean CPU in percent, and the sums of memory in MiB and of tasks."""

    at: datetime
    cpu: float
    memory: float
    running: float


def list_recent_tasks(delegate: Delegate, reader: Principal) -> list[DelegateTask]:
    """Return the running tasks that a reader may view, then the most recent ended ones."""
    tasks = DelegateTask.objects.filter(instance__delegate=delegate).defer("payload", "result", "error")
    visible_tasks = filter_visible(reader, "core_delegate_view", tasks)
    with_instance = visible_tasks.select_related("instance").order_by("-queued_at")
    started = with_instance.filter(status=DelegateTask.Status.STARTED)[:MAX_TASKS]
    over = with_instance.exclude(status=DelegateTask.Status.STARTED)[:MAX_TASKS]
    return [*started, *over]


def list_allowlist_entries(delegate: Delegate, now: datetime) -> QuerySet[AllowlistEntry]:
    """Return the addresses that the delegate reached within six hours."""
    return delegate.allowed.filter(expires_at__gt=now).order_by("-expires_at")[:MAX_LIST_ENTRIES]


def list_blocklist_entries(delegate: Delegate, now: datetime) -> QuerySet[BlocklistEntry]:
    """Return the addresses that the delegate is currently blocked for."""
    return delegate.blocked.filter(expires_at__gt=now).order_by("-expires_at")[:MAX_LIST_ENTRIES]


def list_refusals(delegate: Delegate) -> QuerySet[DelegateEvent]:
    """Return the latest refused registrations under the delegate's name, including unattributed ones."""
    refusals = DelegateEvent.objects.filter(
        scope=delegate.scope_id, name=delegate.name, kind=DelegateEvent.Kind.REFUSED
    )
    return refusals.order_by("-at")[:MAX_REFUSALS]


def list_refused_instances(delegate: Delegate) -> QuerySet[RefusedInstance]:
    """Return the processes that are refused as instances of a delegate, the last one that tried first."""
    return delegate.refused_instances.select_related("instance").order_by("-last_seen_at", "pk")


def list_load_quarters(delegate: Delegate, now: datetime) -> list[LoadQuarter]:
    """Return the last 24 hours of the most recent instances, by quarters of an hour with a sample."""
    heard_last = F("last_heartbeat_at").desc(nulls_last=True)
    instances = DelegateInstance.objects.filter(delegate=delegate).order_by(heard_last)[
        :MAX_SAMPLED_INSTANCES
    ]
    samples = InstanceSample.objects.filter(
        instance__in=list(instances.values_list("pk", flat=True)), at__gt=now - DAY
    )
    columns = ("instance_id", "at", "cpu_process", "memory_mib", "running")
    return list(_group_by_quarter(samples.values_list(*columns)))


def _group_by_quarter(samples: Iterable[tuple[int, datetime, float, float, int]]) -> Iterable[LoadQuarter]:
    quarters: dict[int, dict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for instance, at, cpu, memory, running in samples:
        quarters[int(at.timestamp() // QUARTER.total_seconds())][instance].append((cpu, memory, running))
    for number, instances in sorted(quarters.items()):
        means = [[mean(column) for column in zip(*rows, strict=True)] for rows in instances.values()]
        cpus, memories, tasks = zip(*means, strict=True)
        at = datetime.fromtimestamp(number * QUARTER.total_seconds(), tz=UTC)
        yield LoadQuarter(at, mean(cpus), sum(memories), sum(tasks))


MAX_LOG_LINES = 500


@dataclass(frozen=True)
class AgentLogPage:
    """Page of an instance's log; `first` is the first line's number, `next` the position after the page."""

    instance: int | None
    first: int
    next: int
    lines: tuple[str, ...]


def read_agent_log(instance: DelegateInstance | None, after: int | None = None) -> AgentLogPage:
    """Return up to 500 lines after number `after`, or the last lines."""
    if instance is None:
        return AgentLogPage(None, 0, 0, ())
    chunks = DelegateLogChunk.objects.filter(instance=instance)
    last = chunks.order_by("-sequence").first()
    end = last.sequence + last.count if last else 0
    begin = max(0, end - MAX_LOG_LINES) if after is None else after
    lines: list[tuple[int, str]] = []
    # The chunk before the first requested line may contain it.
    before = chunks.filter(sequence__lt=begin).order_by("-sequence").values("sequence")[:1]
    start = next(iter(before), {"sequence": begin})["sequence"]
    for chunk in chunks.filter(sequence__gte=start).order_by("sequence").iterator(chunk_size=20):
        numbered = enumerate(chunk.text.split("\n"), chunk.sequence)
        lines += [(number, text) for number, text in numbered if number >= begin]
        if len(lines) >= MAX_LOG_LINES:
            break
    page_lines = lines[:MAX_LOG_LINES]
    first = page_lines[0][0] if page_lines else begin
    return AgentLogPage(
        instance.pk,
        first,
        page_lines[-1][0] + 1 if page_lines else max(begin, end),
        tuple(text for _, text in page_lines),
    )


def list_served_connectors(delegate: Delegate, tags: frozenset[str]) -> list[Connector]:
    """Return the connectors that a delegate with these tags can reach, sorted by name.

    For the built-in one these are the connectors that are reached from this Slipway.
    """
    return [connector for connector in _filter_in_reach(delegate) if _is_served(connector, delegate, tags)]


def get_delegate_uses(delegate: Delegate, principal: Principal) -> ResourceUsages:
    """Return the connectors that select the delegate's tags; `principal` gets the names of visible ones."""
    instances = DelegateInstance.objects.filter(delegate=delegate).exclude(
        status=DelegateInstance.Status.GONE
    )
    tags = {tag for instance_tags in instances.values_list("tags", flat=True) for tag in instance_tags}
    served = list_served_connectors(delegate, frozenset([*delegate.tags, delegate.name, *tags]))
    named = [
        connector
        for connector in served
        if delegate.is_built_in or parse_aws_spec(connector.spec).delegate_selectors
    ]
    return build_uses(named, principal)


def build_uses(connectors: list[Connector], principal: Principal) -> ResourceUsages:
    """Return connectors with the names that `principal` may view, and the number of the others."""
    rows = Connector.objects.filter(pk__in=[connector.pk for connector in connectors])
    visible = set(filter_visible(principal, "core_connector_view", rows).values_list("pk", flat=True))
    usages = tuple(
        ResourceUsage(connector.name, reverse("connector", args=[connector.pk]))
        for connector in connectors
        if connector.pk in visible
    )
    return ResourceUsages(usages, len(connectors) - len(usages))


def _filter_in_reach(delegate: Delegate) -> QuerySet[Connector]:
    below = Connector.objects.filter(build_below_filter(delegate.scope))
    return below.only("pk", "name", "spec", "scope").order_by("name", "pk")


def _is_served(connector: Connector, delegate: Delegate, tags: frozenset[str]) -> bool:
    spec = parse_aws_spec(connector.spec)
    if not spec.is_remote or delegate.is_built_in:
        return delegate.is_built_in and not spec.is_remote
    return set(spec.delegate_selectors) <= tags
