"""Which ECS services somebody looks at: only of those sync asks what takes a call for each."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q, QuerySet

from inventory.models.instances import SeenService, SyncedCluster
from web.outages import optional_write

LATELY: Final = timedelta(minutes=15)
NOTED_EVERY: Final = timedelta(minutes=1)


def note_look(shown: Iterable[SeenService], now: datetime) -> None:
    """Note that these are looked at; no query where it was noted a short while ago."""
    stale = [one.pk for one in shown if one.looked_at is None or one.looked_at < now - NOTED_EVERY]
    if stale:
        _note(SeenService.objects.filter(pk__in=stale), now)


def note_watched(services: Iterable[int], now: datetime) -> None:
    """Note that the dashboards of these services are open."""
    _note(SeenService.objects.filter(service__in=list(services), gone_at=None), now)


def looked_at_lately(
    clusters: SyncedCluster | QuerySet[SyncedCluster], now: datetime
) -> QuerySet[SeenService]:
    """The services of a cluster, or of several, that somebody has looked at."""
    rows = SeenService.objects.filter(gone_at=None, looked_at__gt=now - LATELY)
    if isinstance(clusters, SyncedCluster):
        return rows.filter(cluster=clusters)
    return rows.filter(cluster__in=clusters)


def _note(rows: QuerySet[SeenService], now: datetime) -> None:
    due = rows.filter(Q(looked_at=None) | Q(looked_at__lt=now - NOTED_EVERY))
    with optional_write(), transaction.atomic():
        # Sync writes many of these rows at once: who waited for one while holding another could deadlock.
        keys = list(due.select_for_update(skip_locked=True).values_list("pk", flat=True))
        SeenService.objects.filter(pk__in=keys).update(looked_at=now)
