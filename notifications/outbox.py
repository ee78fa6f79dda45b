"""The outbox: what is to be told is written in the transaction of what happened, and sent after it."""

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from guards.limits import NOTIFICATION_HOURS
from notifications.bodies import body_of, text_of
from notifications.facts import Event, Fact
from notifications.models import Notification, NotificationRule
from notifications.tasks import send_soon
from rbac.models import Scope
from rbac.policy import live
from web.clock import database_now

GIVE_UP: Final = timedelta(hours=NOTIFICATION_HOURS)


def notify(*facts: Fact) -> int:
    """Write what is to be told of these facts, and say how much that is; in the transaction of the facts.

    The rules of a fact's scope and of those above count, not those of an archived scope: nobody could turn
    them off. Two queries, however many facts and rules.
    """
    if not facts:
        return 0
    rules = _rules_for(facts)
    found = [
        (fact, rule) for fact in facts for path in fact.scope.ancestor_paths() for rule in rules.get(path, ())
    ]
    wanted = [(fact, rule) for fact, rule in found if fact.event in rule.events]
    if not wanted:
        return 0
    now = database_now()
    # Of one moment too, each rule is told in the order of the facts.
    moments = (now + timedelta(microseconds=place) for place in count())
    Notification.objects.bulk_create(
        [written(fact, rule, at) for (fact, rule), at in zip(wanted, moments, strict=False)]
    )
    transaction.on_commit(send_soon, robust=True)
    return len(wanted)


def wanted_events(scope: Scope, events: Iterable[Event]) -> frozenset[Event]:
    """Which of these events some rule wants to be told of; for who has to read more to say what happened."""
    rows = _in_force(scope.ancestor_paths())
    asked = {name for names in rows.values_list("events", flat=True) for name in names}
    return frozenset(event for event in events if event in asked)


def written(fact: Fact, rule: NotificationRule, now: datetime) -> Notification:
    """The row of one fact for one rule, not saved."""
    key = uuid.uuid4()
    return Notification(
        id=key,
        rule=rule,
        event=fact.event,
        text=text_of(fact),
        body=body_of(fact, key, now),
        created_at=now,
        due_at=now,
        give_up_at=now + GIVE_UP,
    )


def _rules_for(facts: Iterable[Fact]) -> dict[str, list[NotificationRule]]:
    paths = {path for fact in facts for path in fact.scope.ancestor_paths()}
    rows = _in_force(paths)
    found: dict[str, list[NotificationRule]] = {}
    for rule in rows.select_related("scope").defer("url", "secret").order_by("pk"):
        found.setdefault(rule.scope.path, []).append(rule)
    return found


def _in_force(paths: Collection[str]) -> QuerySet[NotificationRule]:
    return NotificationRule.objects.filter(live("scope__"), scope__path__in=paths, is_enabled=True)
