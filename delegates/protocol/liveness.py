"""Instance liveness: late, disconnected and deleted instances, archived delegates (R031, T16)."""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from delegates.connectivity import AWAY_AFTER, LATE_AFTER
from delegates.live import publish_delegates_changed
from delegates.models import Delegate, DelegateEvent, DelegateInstance
from delegates.protocol.events import get_instance_label, notify_away, record_event
from delegates.protocol.limits import GONE_AFTER
from delegates.protocol.sessions import NO_SESSION

LATE, DISCONNECTED, GONE = (
    DelegateEvent.Kind.LATE,
    DelegateEvent.Kind.DISCONNECTED,
    DelegateEvent.Kind.GONE,
)
BATCH_SIZE = 500


def record_silent_instances(now: datetime) -> int:
    """Record instances that became late or disconnected, and delete instances disconnected for too long."""
    alive = DelegateInstance.objects.exclude(status=DelegateInstance.Status.GONE).filter(
        delegate__is_built_in=False
    )
    is_late, is_gone = Q(last_heartbeat_at__lte=now - LATE_AFTER), _build_gone_filter(now)
    if not alive.filter(is_late | is_gone).exists():
        # The usual case: a disconnected instance was late before.
        return 0
    silent = list(
        alive.filter(is_late)
        .exclude(Exists(_list_recorded_events(DISCONNECTED)))
        .annotate(is_recorded_late=Exists(_list_recorded_events(LATE)))
        .select_related("delegate")
        .order_by("last_heartbeat_at")[:BATCH_SIZE]
    )
    changed = _record_silent(silent, now) if silent else []
    gone_instances = list(alive.filter(is_gone).select_related("delegate")[:BATCH_SIZE])
    if gone_instances:
        _release_instances(gone_instances, now)
    publish_delegates_changed(*{instance.delegate_id for instance in [*changed, *gone_instances]})
    return len(changed) + len(gone_instances)


def _build_gone_filter(now: datetime) -> Q:
    """Return the condition of instances that are silent for too long; one without approval only registers."""
    is_waiting = Q(last_heartbeat_at=None)
    return Q(last_heartbeat_at__lte=now - GONE_AFTER) | is_waiting & Q(registered_at__lte=now - GONE_AFTER)


@transaction.atomic
def _record_silent(silent: Iterable[DelegateInstance], now: datetime) -> list[DelegateInstance]:
    changed = [instance for instance in silent if _record_transition(instance, now)]
    notify_away([instance for instance in changed if _is_away(instance, now)], now)
    return changed


def _list_recorded_events(kind: DelegateEvent.Kind) -> QuerySet[DelegateEvent]:
    since = OuterRef("last_heartbeat_at")
    return DelegateEvent.objects.filter(instance=OuterRef("pk"), kind=kind, at__gt=since)


def _is_away(instance: DelegateInstance, now: datetime) -> bool:
    last_heartbeat_at = instance.last_heartbeat_at
    return last_heartbeat_at is not None and now - last_heartbeat_at >= AWAY_AFTER


def _record_transition(instance: DelegateInstance, now: datetime) -> bool:
    if instance.last_heartbeat_at is None:
        return False
    silent = now - instance.last_heartbeat_at
    if silent >= AWAY_AFTER:
        text = (
            f"{get_instance_label(instance)} was not heard for {silent.total_seconds():.0f} s: it is "
            "disconnected."
        )
        record_event(instance, DISCONNECTED, text, at=now)
        return True
    if instance.is_recorded_late:  # type: ignore[attr-defined]
        return False
    record_event(instance, LATE, f"{get_instance_label(instance)} missed a heartbeat.", at=now)
    return True


def archive_absent_delegates(now: datetime) -> int:
    """Archive delegates without contact for the period of the settings, and return their number."""
    period = settings.ARCHIVE_DELEGATES_AFTER
    absent = Delegate.objects.filter(archived_at=None, is_built_in=False, away_since__lte=now - period)
    return sum(_archive(delegate, absent, now) for delegate in list(absent[:BATCH_SIZE]))


@transaction.atomic
def _archive(delegate: Delegate, absent: QuerySet[Delegate], now: datetime) -> bool:
    # The condition again: it may have registered meanwhile.
    if not absent.filter(pk=delegate.pk).update(archived_at=now):
        return False
    DelegateEvent.objects.create(
        scope_id=delegate.scope_id,
        delegate=delegate,
        name=delegate.name,
        at=now,
        kind=GONE,
        text=f"Archived: it was not heard for {settings.ARCHIVE_DELEGATES_AFTER.days} days.",
    )
    publish_delegates_changed(delegate.pk)
    return True


@transaction.atomic
def _release_instances(instances: Iterable[DelegateInstance], now: datetime) -> None:
    hours = GONE_AFTER.total_seconds() / 3600
    for instance in instances:
        rows = DelegateInstance.objects.filter(_build_gone_filter(now), pk=instance.pk)
        if rows.update(**NO_SESSION):
            record_event(
                instance, GONE, f"{get_instance_label(instance)} was not heard for {hours:.0f} hours.", at=now
            )
