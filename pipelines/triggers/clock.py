"""Triggers that look for events by themselves, at times that their kind says."""

from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from pipelines.models import Trigger
from pipelines.triggers.events import record_event
from pipelines.triggers.registry import find_kind

TRIGGERS_PER_MESSAGE: Final = 50


def has_due_triggers(now: datetime) -> bool:
    """Return whether the time of a trigger has come."""
    return _list_due(now).exists()


def create_due_events(now: datetime) -> int:
    """Write the events of all times that have come, and return their number.

    However many times were missed, a trigger has one event. Times of deleted pipelines pass without one.
    """
    rows = _list_due(now).select_related("pipeline__scope").order_by("due_at", "pk")
    return sum(_create_due_event(trigger, now) for trigger in rows[:TRIGGERS_PER_MESSAGE])


def skip_missed_times(now: datetime) -> int:
    """Move all due triggers on to their next time, without events, and return their number."""
    rows = list(_list_due(now))
    return sum(_move_on(trigger, now) for trigger in rows)


def _create_due_event(trigger: Trigger, now: datetime) -> bool:
    kind, due_at = find_kind(trigger.kind), trigger.due_at
    # The event and the next time are one commit; of two workers, one moves the time on.
    with transaction.atomic():
        if not _move_on(trigger, now) or kind is None or due_at is None:
            return False
        if trigger.pipeline.deleted_at is not None:
            return False
        return record_event(trigger, kind.build_due_event(trigger.spec, due_at), now=now)[1]


def _move_on(trigger: Trigger, now: datetime) -> bool:
    """Set the next time after now, and return whether no other worker has."""
    kind = find_kind(trigger.kind)
    following = kind.get_next_due(trigger.spec, now) if kind else None
    return bool(Trigger.objects.filter(pk=trigger.pk, due_at=trigger.due_at).update(due_at=following))


def _list_due(now: datetime) -> "QuerySet[Trigger]":
    return Trigger.objects.filter(due_at__lte=now)
