"""Digests of rules that get many events: at most one message in some minutes, with a summary."""

import json
import uuid
from collections import Counter
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from notifications.channels.messages import select_most_severe
from notifications.documents import DELIVERY_DEADLINE, build_document
from notifications.event_texts import describe_digest
from notifications.events import EventType, NotificationEvent
from notifications.models import Notification, NotificationRule

WAITING = Notification.Status.WAITING
# The others of a burst come in the next digest.
EVENTS_PER_DIGEST: Final = 500
LISTED_EVENTS: Final = 50
SUMMARIZED_REASON: Final = "Sent in a digest."


def build_released_filter() -> Q:
    """Return the filter of notifications that may be sent: those of a digest, or that need none."""
    return Q(rule__digest_minutes=0) | Q(released_at__isnull=False)


def build_digest_due_filter(prefix: str, now: datetime) -> Q:
    """Return the filter of rules without a digest in their last minutes; `prefix` leads to the rule."""
    return Q(**{f"{prefix}next_digest_at": None}) | Q(**{f"{prefix}next_digest_at__lte": now})


def release_digests(now: datetime) -> int:
    """Write the digests that are due, and return their number."""
    collected = _list_collected(now).filter(rule=OuterRef("pk"))
    rules = NotificationRule.objects.filter(build_digest_due_filter("", now), Exists(collected))
    listed = rules.filter(digest_minutes__gt=0).select_related("scope").defer("url", "secret").order_by("pk")
    return sum(_release_digest(rule, now) for rule in listed)


def _list_collected(now: datetime) -> QuerySet[Notification]:
    # One that is being sent, since before its rule had digests, may be delivered by itself.
    unclaimed = Q(claimed_until=None) | Q(claimed_until__lte=now)
    return Notification.objects.filter(
        unclaimed, status=WAITING, due_at__lte=now, rule__digest_minutes__gt=0, released_at=None
    )


def _release_digest(rule: NotificationRule, now: datetime) -> bool:
    """Replace the collected events of a rule by their digest; a single one is sent as it is."""
    with transaction.atomic():
        # A conditional UPDATE: of two workers, one writes the digest.
        current = NotificationRule.objects.filter(pk=rule.pk, next_digest_at=rule.next_digest_at)
        if not current.update(next_digest_at=now + timedelta(minutes=rule.digest_minutes)):
            return False
        collected = _list_collected(now).filter(rule=rule).order_by("created_at", "pk")
        rows = list(collected[:EVENTS_PER_DIGEST])
        if not rows:
            return False
        released = Notification.objects.filter(pk__in=[row.pk for row in rows], status=WAITING)
        if len(rows) == 1:
            return bool(released.update(released_at=now))
        released.update(
            status=Notification.Status.SUMMARIZED, released_at=now, ended_at=now, reason=SUMMARIZED_REASON
        )
        _build_digest(rule, rows, now).save(force_insert=True)
    return True


def _build_digest(rule: NotificationRule, rows: list[Notification], now: datetime) -> Notification:
    """Return the notification that summarizes others, not saved."""
    counts = Counter(EventType(row.event).label for row in rows)
    text = describe_digest(counts, rows[0].created_at, now)
    fact = NotificationEvent(EventType.DIGEST, rule.scope, text, path=f"/notifications/{rule.pk}/")
    key = uuid.uuid4()
    listed = select_most_severe(rows, LISTED_EVENTS, attrgetter("event"))
    events = [_describe_event(row) for row in listed]
    document = {**build_document(fact, key, now), "events": events}
    return Notification(
        id=key,
        rule=rule,
        event=EventType.DIGEST,
        text=document["text"],
        body=json.dumps(document, ensure_ascii=False),
        created_at=now,
        due_at=now,
        deadline_at=now + DELIVERY_DEADLINE,
        released_at=now,
    )


def _describe_event(row: Notification) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "event": row.event,
        "at": row.created_at.isoformat(),
        "text": row.text,
        "url": json.loads(row.body)["url"],
    }
