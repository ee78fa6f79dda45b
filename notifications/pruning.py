"""Takes away notifications that are older than they are kept for."""

from datetime import datetime, timedelta
from typing import Final

from guards.limits import NOTIFICATION_DAYS
from notifications.models import Notification

KEPT: Final = timedelta(days=NOTIFICATION_DAYS)
# A transaction that takes long keeps others from writing.
AT_ONCE: Final = 1000


def prune(now: datetime) -> int:
    """Delete what ended and is old, a part at a time, and say how many rows went."""
    old = Notification.objects.filter(created_at__lt=now - KEPT).exclude(status=Notification.Status.WAITING)
    total = 0
    while ids := list(old.values_list("pk", flat=True)[:AT_ONCE]):
        total += Notification.objects.filter(pk__in=ids).delete()[0]
    return total
