"""Takes away what is older than it is kept for."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from delegates.models import DelegateTask
from delegates.protocol.pruning import delete_in_parts
from inventory.drift.progress import Look
from inventory.models.drift import Adoption, Drift, KnownRevision

ENDED_KEPT = timedelta(days=90)
REVISIONS_KEPT = timedelta(days=30)
# What was read back and nobody has taken over; it holds the values of environments.
UNUSED_KEPT = timedelta(days=1)
TASKS_KEPT = timedelta(minutes=15)


def prune(now: datetime) -> int:
    """Delete what is older than it is kept for, a part at a time, and say how many rows went."""
    return sum(delete_in_parts(rows) for rows in _old(now))


def _old(now: datetime) -> list[QuerySet[Any]]:
    asked = DelegateTask.objects.filter(owner=Look.OWNER).exclude(status__in=DelegateTask.OPEN)
    return [
        asked.filter(finished_at__lt=now - TASKS_KEPT),
        Drift.objects.filter(ended_at__lt=now - ENDED_KEPT),
        KnownRevision.objects.filter(used_at__lt=now - REVISIONS_KEPT),
        Adoption.objects.exclude(state=Adoption.State.ADOPTED).filter(asked_at__lt=now - UNUSED_KEPT),
    ]
