"""Outbox: notifications are written in the transaction of their event and sent after it."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from itertools import count
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from notifications.channels.commit_statuses import find_commit_target
from notifications.channels.registry import CHANNELS
from notifications.documents import build_notification
from notifications.events import EventType, NotificationEvent
from notifications.filters import matches_filters
from notifications.models import Notification, NotificationRule
from notifications.tasks import request_send
from rbac.models import Scope
from rbac.policy import build_not_archived_filter
from web.clock import get_database_time

# Kinds of rules that report to commits.
COMMIT_KINDS: Final = frozenset(kind for kind, channel in CHANNELS.items() if channel.reports_commits)


def notify(*facts: NotificationEvent, kinds: Collection[str] = CHANNELS.keys()) -> int:
    """Write the notifications of these events in their transaction, and return their number.

    The rules of an event's scope and the scopes above apply if their filters match, except rules of archived
    scopes and of other kinds. Two queries in all.
    """
    if not facts:
        return 0
    rules = _list_rules_by_path(facts)
    matches = [
        (fact, rule)
        for fact in facts
        for path in fact.scope.ancestor_paths()
        for rule in rules.get(path, ())
        if fact.event in rule.events and rule.kind in kinds and _is_wanted(rule, fact)
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


def _is_wanted(rule: NotificationRule, fact: NotificationEvent) -> bool:
    """Return whether an event matches the filters of a rule, and has the commit that its channel needs."""
    channel = CHANNELS.get(rule.kind)
    if channel is None or not matches_filters(rule.filters, fact):
        return False
    return not channel.reports_commits or find_commit_target(rule.kind, rule.options, fact) is not None


def list_subscribed_events(
    scope: Scope, events: Iterable[EventType], kinds: Collection[str] = CHANNELS.keys()
) -> frozenset[EventType]:
    """Return the events that have a rule, for callers that must read more to build them."""
    rows = _list_enabled_rules(scope.ancestor_paths()).filter(kind__in=kinds)
    subscribed = {name for names in rows.values_list("events", flat=True) for name in names}
    return frozenset(event for event in events if event in subscribed)


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
