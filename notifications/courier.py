"""The lease under which one worker at a time sends: whatever receivers do, the others have their workers."""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from notifications.models import Courier

LEASE: Final = timedelta(seconds=50)


def take(now: datetime) -> datetime | None:
    """Take the lease and say until when it is ours; None where another worker has it."""
    until = now + LEASE
    Courier.objects.get_or_create(pk=1)
    free = Courier.objects.filter(Q(busy_until=None) | Q(busy_until__lte=now), pk=1)
    return until if free.update(busy_until=until) else None


def leave(until: datetime) -> None:
    """Give the lease back, if it still is the one that was taken until then."""
    Courier.objects.filter(pk=1, busy_until=until).update(busy_until=None)
