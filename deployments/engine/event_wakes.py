"""Effect of ECS events on executions that wait for ECS services (rule 5).

An event decides nothing: it brings the next check forward, and shows that checks may be rare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, F, Q, QuerySet, Value, When

from connectors.models import EventQueue
from connectors.models.event_queues import READ_WINDOW
from delegates.event_queues.events import ServiceEvent
from deployments.models import Execution


@dataclass(frozen=True)
class _ServiceKey:
    """Service of one account, region and cluster."""

    account: str
    region: str
    cluster: str
    service: str


def record_events(events: Sequence[ServiceEvent], now: datetime) -> bool:
    """Record events at the executions that wait for their services; return whether one is due because of it.

    Late, repeated and reordered events change nothing: only the newest time counts.
    """
    times: dict[_ServiceKey, datetime] = {}
    decisive: set[_ServiceKey] = set()
    for event in events:
        key = _ServiceKey(event.account, event.region, event.cluster, event.service)
        times[key] = max(event.at, times.get(key, event.at))
        if event.is_decisive:
            decisive.add(key)
    for key, at in times.items():
        older = Q(event_at=None) | Q(event_at__lt=at)
        _filter_waiting(key).filter(older).update(event_at=at)
    return sum(_wake(key, now) for key in decisive) > 0


def _wake(key: _ServiceKey, now: datetime) -> int:
    # Also while a pass runs: it may have read the service before the event.
    due_at = Case(When(due_at__gt=now, then=Value(now)), default=F("due_at"))
    return _filter_waiting(key).update(dispatch_backoff_until=None, woken_at=now, due_at=due_at)


def _filter_waiting(key: _ServiceKey) -> QuerySet[Execution]:
    return Execution.objects.filter(
        due_at__isnull=False,
        waits_for_service=key.service,
        rate_limit_key=f"{key.account}/{key.region}",
        batch_key__endswith=f"|{key.region}|{key.cluster}",
    )


def list_receiving_keys(now: datetime) -> set[str]:
    """Return the rate limit keys of the accounts and regions whose events arrive."""
    queues = EventQueue.objects.filter(
        problem="", silent_since=None, last_event_at__isnull=False, read_at__gte=now - READ_WINDOW
    )
    return {f"{account}/{region}" for account, region in queues.values_list("account", "region")}


def record_unannounced_change(rate_limit_key: str, now: datetime) -> None:
    """Record that a service changed although no event came: checks are frequent until the next one."""
    account, _, region = rate_limit_key.partition("/")
    EventQueue.objects.filter(account=account, region=region, silent_since=None).update(silent_since=now)
