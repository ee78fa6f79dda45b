"""Looks after instances that nobody heard: late, away, and gone for good (R031, T16)."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from delegates.connectivity import AWAY_AFTER, LATE_AFTER
from delegates.models import DelegateEvent, DelegateInstance
from delegates.notifying import tell_away
from delegates.protocol.happenings import called, note
from delegates.protocol.terms import GONE_AFTER
from delegates.telling import tell

LATE, DISCONNECTED, GONE = (
    DelegateEvent.Kind.LATE,
    DelegateEvent.Kind.DISCONNECTED,
    DelegateEvent.Kind.GONE,
)
MOST_AT_ONCE = 500


def look_after(now: datetime) -> int:
    """Write down who became late or away since the last look, let go of who was away too long."""
    alive = DelegateInstance.objects.exclude(status=DelegateInstance.Status.GONE)
    heard = alive.filter(last_heartbeat_at__lte=now - LATE_AFTER, delegate__is_built_in=False)
    if not heard.exists():
        # As nearly always: who is gone was silent before.
        return 0
    silent = list(
        heard.exclude(Exists(_told(DISCONNECTED)))
        .annotate(is_told_late=Exists(_told(LATE)))
        .select_related("delegate")
        .order_by("last_heartbeat_at")[:MOST_AT_ONCE]
    )
    changed = _tell_of_all(silent, now) if silent else []
    gone = list(
        alive.filter(last_heartbeat_at__lte=now - GONE_AFTER, delegate__is_built_in=False).select_related(
            "delegate"
        )[:MOST_AT_ONCE]
    )
    if gone:
        _let_go(gone, now)
    tell(*{one.delegate_id for one in [*changed, *gone]})
    return len(changed) + len(gone)


@transaction.atomic
def _tell_of_all(silent: Iterable[DelegateInstance], now: datetime) -> list[DelegateInstance]:
    changed = [one for one in silent if _tell_of(one, now)]
    tell_away([one for one in changed if _is_away(one, now)], now)
    return changed


def _told(kind: DelegateEvent.Kind) -> QuerySet[DelegateEvent]:
    since = OuterRef("last_heartbeat_at")
    return DelegateEvent.objects.filter(instance=OuterRef("pk"), kind=kind, at__gt=since)


def _is_away(instance: DelegateInstance, now: datetime) -> bool:
    heard = instance.last_heartbeat_at
    return heard is not None and now - heard >= AWAY_AFTER


def _tell_of(instance: DelegateInstance, now: datetime) -> bool:
    if instance.last_heartbeat_at is None:
        return False
    silent = now - instance.last_heartbeat_at
    if silent >= AWAY_AFTER:
        text = f"{called(instance)} was not heard for {silent.total_seconds():.0f} s: it is disconnected."
        note(instance, DISCONNECTED, text, at=now)
        return True
    if instance.is_told_late:  # type: ignore[attr-defined]
        return False
    note(instance, LATE, f"{called(instance)} missed a heartbeat.", at=now)
    return True


@transaction.atomic
def _let_go(instances: Iterable[DelegateInstance], now: datetime) -> None:
    hours = GONE_AFTER.total_seconds() / 3600
    for instance in instances:
        gone = DelegateInstance.objects.filter(pk=instance.pk, last_heartbeat_at__lte=now - GONE_AFTER)
        if gone.update(
            status=DelegateInstance.Status.GONE,
            connection=DelegateInstance.Connection.NONE,
            session_hash="",
            previous_session_hash="",
            session_expires_at=None,
            running=0,
        ):
            note(instance, GONE, f"{called(instance)} was not heard for {hours:.0f} hours.", at=now)
