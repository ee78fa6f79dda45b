"""Outbox: notifications are written in the transaction of their event and sent after it."""

import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from guards.limits import NOTIFICATION_CAUSE_CHARACTERS, NOTIFICATION_HOURS, NOTIFICATION_TEXT_CHARACTERS
from notifications.escaping import collapse_whitespace, escape_for_chat, truncate_line
from notifications.events import EventType, NotificationEvent
from notifications.filters import matches_filters
from notifications.models import Notification, NotificationRule
from notifications.tasks import request_send
from rbac.models import Scope
from rbac.policy import build_not_archived_filter
from web.clock import get_database_time

OUTPUT_LINES, OUTPUT_LINE_CHARACTERS = 10, 500


def render_body(fact: NotificationEvent, key: UUID, at: datetime) -> str:
    """Return the document as the exact bytes of the request; every key is always present."""
    return json.dumps(build_document(fact, key, at), ensure_ascii=False)


def build_document(fact: NotificationEvent, key: UUID, at: datetime) -> Mapping[str, Any]:
    """Return the document."""
    return {
        "id": str(key),
        "event": fact.event.value,
        "at": at.isoformat(),
        "text": render_text(fact),
        "scope": fact.scope.path,
        "org": fact.scope.org or None,
        "project": fact.scope.project or None,
        "status": fact.status or None,
        "cause": truncate_line(fact.cause, NOTIFICATION_CAUSE_CHARACTERS) or None,
        "pipeline": fact.pipeline or None,
        "execution": fact.execution or None,
        "services": list(fact.services),
        "environments": list(fact.environments),
        "delegate": fact.delegate or None,
        "started_by": fact.started_by or None,
        "approved_by": list(fact.approved_by),
        "last_output": [
            truncate_line(line, OUTPUT_LINE_CHARACTERS) for line in fact.last_output[-OUTPUT_LINES:]
        ],
        "url": f"{settings.PUBLIC_URL}{fact.path}",
    }


def render_text(fact: NotificationEvent) -> str:
    """Return the event in one line, escaped for chat tools."""
    # Joined to one line first: removed characters may separate markup of chat tools.
    return truncate_line(escape_for_chat(collapse_whitespace(fact.text)), NOTIFICATION_TEXT_CHARACTERS)


DELIVERY_DEADLINE: Final = timedelta(hours=NOTIFICATION_HOURS)


def notify(*facts: NotificationEvent) -> int:
    """Write the notifications of these events in their transaction, and return their number.

    The rules of an event's scope and the scopes above apply if their filters match, except rules of archived
    scopes. Two queries in all.
    """
    if not facts:
        return 0
    rules = _list_rules_by_path(facts)
    matches = [
        (fact, rule)
        for fact in facts
        for path in fact.scope.ancestor_paths()
        for rule in rules.get(path, ())
        if fact.event in rule.events and matches_filters(rule.filters, fact)
    ]
    if not matches:
        return 0
    now = get_database_time()
    # Events of the same moment keep their order for each rule.
    moments = (now + timedelta(microseconds=place) for place in count())
    Notification.objects.bulk_create(
        [build_notification(fact, rule, at) for (fact, rule), at in zip(matches, moments, strict=False)]
    )
    transaction.on_commit(request_send, robust=True)
    return len(matches)


def list_subscribed_events(scope: Scope, events: Iterable[EventType]) -> frozenset[EventType]:
    """Return the events that have a rule, for callers that must read more to build them."""
    rows = _list_enabled_rules(scope.ancestor_paths())
    subscribed = {name for names in rows.values_list("events", flat=True) for name in names}
    return frozenset(event for event in events if event in subscribed)


def build_notification(fact: NotificationEvent, rule: NotificationRule, now: datetime) -> Notification:
    """Return the row of one fact for one rule, not saved."""
    key = uuid.uuid4()
    return Notification(
        id=key,
        rule=rule,
        event=fact.event,
        text=render_text(fact),
        body=render_body(fact, key, now),
        created_at=now,
        due_at=now,
        deadline_at=now + DELIVERY_DEADLINE,
    )


def _list_rules_by_path(facts: Iterable[NotificationEvent]) -> dict[str, list[NotificationRule]]:
    paths = {path for fact in facts for path in fact.scope.ancestor_paths()}
    rows = _list_enabled_rules(paths)
    rules_by_path: dict[str, list[NotificationRule]] = {}
    for rule in rows.select_related("scope").defer("url", "secret").order_by("pk"):
        rules_by_path.setdefault(rule.scope.path, []).append(rule)
    return rules_by_path


def _list_enabled_rules(paths: Collection[str]) -> QuerySet[NotificationRule]:
    return NotificationRule.objects.filter(
        build_not_archived_filter("scope__"), scope__path__in=paths, is_enabled=True
    )
