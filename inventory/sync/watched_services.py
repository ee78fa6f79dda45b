"""ECS services with an open dashboard; sync fetches per-service details only for these."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q, QuerySet

from inventory.models.instances import EcsServiceRecord, SyncedCluster
from web.http.outages import optional_write

WATCH_WINDOW: Final = timedelta(minutes=15)
RECORD_INTERVAL: Final = timedelta(minutes=1)


def record_view(shown: Iterable[EcsServiceRecord], now: datetime) -> None:
    """Note that these are looked at; no query where it was noted a short while ago."""
    stale = [one.pk for one in shown if one.viewed_at is None or one.viewed_at < now - RECORD_INTERVAL]
    if stale:
        _update_viewed_at(EcsServiceRecord.objects.filter(pk__in=stale), now)


def record_watched_services(services: Iterable[int], now: datetime) -> None:
    """Note that the dashboards of these services are open."""
    _update_viewed_at(EcsServiceRecord.objects.filter(service__in=list(services), gone_at=None), now)


def filter_watched_services(
    clusters: SyncedCluster | QuerySet[SyncedCluster], now: datetime
) -> QuerySet[EcsServiceRecord]:
    """The services of a cluster, or of several, that somebody has looked at."""
    rows = EcsServiceRecord.objects.filter(gone_at=None, viewed_at__gt=now - WATCH_WINDOW)
    if isinstance(clusters, SyncedCluster):
        return rows.filter(cluster=clusters)
    return rows.filter(cluster__in=clusters)


def _update_viewed_at(rows: QuerySet[EcsServiceRecord], now: datetime) -> None:
    due = rows.filter(Q(viewed_at=None) | Q(viewed_at__lt=now - RECORD_INTERVAL))
    with optional_write(), transaction.atomic():
        # Sync writes many of these rows at once: who waited for one while holding another could deadlock.
        keys = list(due.select_for_update(skip_locked=True).values_list("pk", flat=True))
        EcsServiceRecord.objects.filter(pk__in=keys).update(viewed_at=now)
