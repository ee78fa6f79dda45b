"""Waiting notifications that newer ones replace, for channels where the newest state counts."""

import json
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, Q

from notifications.channels.base import NewerReports
from notifications.channels.commit_statuses import compare_newer_reports, list_reported_environments
from notifications.models import Notification, NotificationRule

SUPERSEDED_REASON: Final = "A newer state is reported instead."
_WAITING, _DELIVERED = Notification.Status.WAITING, Notification.Status.DELIVERED


def drop_superseded(rule: NotificationRule, now: datetime) -> int:
    """End the waiting notifications of subjects that have a newer one, and return their number.

    A late repetition must not replace the final state by an earlier one.
    """
    newer = Notification.objects.filter(
        rule=rule, subject=OuterRef("subject"), created_at__gt=OuterRef("created_at")
    )
    waiting = Notification.objects.filter(build_unclaimed_filter(now), rule=rule, status=_WAITING)
    old = waiting.exclude(subject="").filter(Exists(newer))
    return old.update(
        status=Notification.Status.SUMMARIZED, ended_at=now, claimed_until=None, reason=SUPERSEDED_REASON
    )


def find_newer_reports(notification: Notification) -> NewerReports:
    """Return what was reported to commits since the event of a notification, for other executions.

    A newer one that waits after an attempt counts: a part of it may have arrived. One without an attempt is
    sent later than this one.
    """
    newer = Notification.objects.filter(
        rule=notification.rule_id,
        created_at__gt=notification.created_at,
        sends__gt=0,
        status__in=(_WAITING, _DELIVERED),
    ).exclude(subject__in=("", notification.subject))
    bodies = newer.values_list("body", flat=True).iterator()
    return compare_newer_reports(json.loads(notification.body), map(json.loads, bodies))


def find_reported_environments(notification: Notification) -> frozenset[str]:
    """Return the environments that earlier events of the same execution reported."""
    earlier = Notification.objects.filter(
        rule=notification.rule_id,
        subject=notification.subject,
        created_at__lt=notification.created_at,
        status=_DELIVERED,
    )
    return list_reported_environments(map(json.loads, earlier.values_list("body", flat=True)))


def end_superseded(notification: Notification, now: datetime) -> None:
    """End a claimed notification that has nothing left to report."""
    claimed = Notification.objects.filter(pk=notification.pk, sends=notification.sends, status=_WAITING)
    claimed.update(
        status=Notification.Status.SUMMARIZED, ended_at=now, claimed_until=None, reason=SUPERSEDED_REASON
    )


def build_unclaimed_filter(now: datetime) -> Q:
    """Return the filter of notifications that no worker has claimed."""
    return Q(claimed_until=None) | Q(claimed_until__lte=now)
