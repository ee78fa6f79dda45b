"""Delegates that are away, as a short list names them: no tags, no versions, nothing of what runs."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Prefetch, QuerySet

from delegates.connectivity import status_of
from delegates.models import Delegate, DelegateEvent, DelegateInstance
from delegates.queries.connectivities import is_away_at, is_connected_at
from delegates.queries.delegates import EXPECTED, heard_at_of, newest_end, reason_of, said_since


@dataclass(frozen=True)
class AwayDelegate:
    """A delegate that is late or disconnected, and why: the same words as `DelegateFacts` has."""

    pk: int
    name: str
    status: str
    reason: str
    heard_at: datetime | None


@dataclass(frozen=True)
class Presence:
    """How many delegates there are, how many of them are connected, and some of those that are away."""

    total: int
    connected: int
    away: list[AwayDelegate]


def presence(delegates: QuerySet[Delegate], now: datetime, most: int) -> Presence:
    """Count these delegates, and name at most `most` that are away; in four queries whatever their number."""
    connected = Count("pk", filter=is_connected_at(now))
    return Presence(
        **delegates.aggregate(total=Count("pk"), connected=connected), away=_away(delegates, now, most)
    )


def _away(delegates: QuerySet[Delegate], now: datetime, most: int) -> list[AwayDelegate]:
    instances = DelegateInstance.objects.only("delegate", "status", "suspect_since", "last_heartbeat_at")
    rows = delegates.filter(is_away_at(now)).only("name", "admission", "draining").annotate(end=newest_end())
    found = list(rows.order_by("name", "pk").prefetch_related(Prefetch("instances", instances))[:most])
    keys = [one.end for one in found if one.end]
    ends = DelegateEvent.objects.only("at", "text").in_bulk(keys) if keys else {}
    return [_told(one, now, ends.get(one.end)) for one in found]


def _told(delegate: Delegate, now: datetime, end: DelegateEvent | None) -> AwayDelegate:
    instances = list(delegate.instances.all())
    status, heard_at = status_of(delegate, instances, now), heard_at_of(instances)
    expected = [one for one in instances if one.status in EXPECTED]
    reason = reason_of(status, expected, said_since(end, heard_at))
    return AwayDelegate(delegate.pk, delegate.name, status.value, reason, heard_at)
