"""Effect of ECS events on executions that wait for ECS services (rule 5).

An event decides nothing: it brings the next check forward, and shows that checks may be rare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, Value, When

from connectors.account_claims import parse_account
from delegates.event_queues.coverage import CoveredReads, QueueCoverage, select_covered
from delegates.event_queues.events import ServiceEvent
from deployments.models import Execution


@dataclass(frozen=True)
class _ServiceKey:
    """Service of one region and cluster."""

    region: str
    cluster: str
    service: str


def record_events(coverage: QueueCoverage, events: Sequence[ServiceEvent], now: datetime) -> bool:
    """Record events at the executions that wait for their services; return whether one is due because of it.

    Late, repeated and reordered events change nothing: only the newest time counts.
    """
    times: dict[_ServiceKey, datetime] = {}
    decisive: set[_ServiceKey] = set()
    for event in events:
        key = _ServiceKey(event.region, event.cluster, event.service)
        times[key] = max(event.at, times.get(key, event.at))
        if event.is_decisive:
            decisive.add(key)
    return sum(_record(coverage, key, at, now, wakes=key in decisive) for key, at in times.items()) > 0


def end_coverage(coverage: QueueCoverage, now: datetime) -> bool:
    """Make the executions due that relied on the events of a queue; return whether there are any.

    Otherwise those whose next check is rare would notice that the queue stopped up to 10 s later.
    """
    rows = Execution.objects.filter(
        Q(lease_expires_at=None) | Q(lease_expires_at__lte=now),
        due_at__isnull=False,
        event_at__isnull=False,
        batch_key__contains=f"|{coverage.region}|",
    ).exclude(waits_for_service="")
    waiting = _filter_covered(coverage, rows)
    due_at = Case(When(due_at__gt=now, then=Value(now)), default=F("due_at"))
    return rows.filter(pk__in=waiting).update(dispatch_backoff_until=None, due_at=due_at) > 0


def _record(coverage: QueueCoverage, key: _ServiceKey, at: datetime, now: datetime, *, wakes: bool) -> int:
    """Record the newest event of a service, and return the number of executions that it made due."""
    waiting = _list_waiting(coverage, key)
    if not waiting:
        return 0
    rows = Execution.objects.filter(pk__in=waiting)
    rows.filter(Q(event_at=None) | Q(event_at__lt=at)).update(event_at=at)
    if not wakes:
        return 0
    # Also while a pass runs: it may have read the service before the event.
    due_at = Case(When(due_at__gt=now, then=Value(now)), default=F("due_at"))
    is_waiting = rows.filter(due_at__isnull=False, waits_for_service=key.service)
    return is_waiting.update(dispatch_backoff_until=None, woken_at=now, due_at=due_at)


def _list_waiting(coverage: QueueCoverage, key: _ServiceKey) -> list[UUID]:
    """Return the executions that wait for a service, and that the queue covers."""
    rows = Execution.objects.filter(
        due_at__isnull=False,
        waits_for_service=key.service,
        batch_key__endswith=f"|{key.region}|{key.cluster}",
    )
    return _filter_covered(coverage, rows)


def _filter_covered(coverage: QueueCoverage, rows: QuerySet[Execution]) -> list[UUID]:
    columns = ("pk", "batch_key", "rate_limit_key", "scope__path")
    waiting = {pk: build_covered_reads(*values) for pk, *values in rows.values_list(*columns)}
    covered = select_covered(list(waiting.values()), [coverage])
    return [pk for pk, reads in waiting.items() if reads in covered]


def build_covered_reads(batch_key: str, rate_limit_key: str, scope_path: str) -> CoveredReads:
    """Return the reads of a waiting execution; the keys are those of `service_waits`."""
    _, _, rest = batch_key.partition(":")
    account_key, _, region = rate_limit_key.rpartition("/")
    connector = int(rest.partition(":")[0] or 0)
    return CoveredReads(connector, scope_path, parse_account(account_key), region)
