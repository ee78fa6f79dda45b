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


def record_view(ecs_services: Iterable[EcsServiceRecord], now: datetime) -> None:
    """Record a view of these services; no query if one was recorded recently."""
    stale = [
        ecs_service.pk
        for ecs_service in ecs_services
        if ecs_service.viewed_at is None or ecs_service.viewed_at < now - RECORD_INTERVAL
    ]
    if stale:
        _update_viewed_at(EcsServiceRecord.objects.filter(pk__in=stale), now)


def record_watched_services(services: Iterable[int], now: datetime) -> None:
    """Record that the dashboards of these services are open."""
    _update_viewed_at(EcsServiceRecord.objects.filter(service__in=list(services), gone_at=None), now)


def filter_watched_services(
    clusters: SyncedCluster | QuerySet[SyncedCluster], now: datetime
) -> QuerySet[EcsServiceRecord]:
    """Return the recently viewed services of one or several clusters."""
    rows = EcsServiceRecord.objects.filter(gone_at=None, viewed_at__gt=now - WATCH_WINDOW)
    if isinstance(clusters, SyncedCluster):
        return rows.filter(cluster=clusters)
    return rows.filter(cluster__in=clusters)


def _update_viewed_at(rows: QuerySet[EcsServiceRecord], now: datetime) -> None:
    due = rows.filter(Q(viewed_at=None) | Q(viewed_at__lt=now - RECORD_INTERVAL))
    with optional_write("which ECS services are viewed"), transaction.atomic():
        # Sync updates many of these rows at once, so waiting for a row lock could deadlock.
        keys = list(due.select_for_update(skip_locked=True).values_list("pk", flat=True))
        EcsServiceRecord.objects.filter(pk__in=keys).update(viewed_at=now)
