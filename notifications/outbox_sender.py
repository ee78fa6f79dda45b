"""Delivery of due notifications under a lease, with retries, backoff and retention."""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from guards.limits import NOTIFICATION_ATTEMPTS, NOTIFICATION_HOURS
from notifications.channels.base import Channel, Delivery, DeliveryResult, format_reason
from notifications.channels.registry import CHANNELS
from notifications.digests import build_digest_due_filter, build_released_filter, release_digests
from notifications.models import Notification, NotificationRule, OutboxLease
from notifications.repository_tokens import TokenUnavailable, read_token
from notifications.superseded import (
    build_unclaimed_filter,
    drop_superseded,
    end_superseded,
    find_newer_reports,
    find_reported_environments,
)
from rbac.encryption import DecryptionFailed
from web.clock import get_database_time
from web.http.client import get_outgoing_reach
from web.retention import RetentionRule

LEASE_DURATION: Final = timedelta(seconds=50)


def claim_lease(now: datetime) -> datetime | None:
    """Claim the lease and return its expiry; None if another worker has it."""
    until = now + LEASE_DURATION
    OutboxLease.objects.get_or_create(pk=1)
    free = OutboxLease.objects.filter(Q(lease_expires_at=None) | Q(lease_expires_at__lte=now), pk=1)
    return until if free.update(lease_expires_at=until) else None


def release_lease(until: datetime) -> None:
    """Release the lease if it still has this expiry."""
    OutboxLease.objects.filter(pk=1, lease_expires_at=until).update(lease_expires_at=None)


logger = logging.getLogger(__name__)
WAITING, DELIVERED = Notification.Status.WAITING, Notification.Status.DELIVERED
FAILED = Notification.Status.FAILED
# Parallel deliveries, each for another rule: the events of one rule stay in order, and a hanging one blocks
# only itself.
MOST_PARALLEL_SENDS: Final = 16
# No new delivery starts after the first time; after the second, unfinished ones record their own results.
CLAIM_WINDOW_SECONDS, ROUND_SECONDS = 20.0, 38.0
# Interval for finding new due notifications during deliveries.
POLL_SECONDS: Final = 1.0
CLAIM_DURATION: Final = timedelta(seconds=60)
# Between the attempts of one notification.
RETRY_DELAYS: Final = tuple(timedelta(seconds=each) for each in (10, 30, 120, 600, 1800, 3600, 10_800))
# Pause of a rule after consecutive failures: a thousand waiting notifications cost one attempt each time.
RULE_BACKOFFS: Final = tuple(timedelta(seconds=each) for each in (2, 5, 15, 30, 60))


@dataclass(frozen=True)
class ClaimedNotification:
    """Notification that this worker has claimed; `fence` is the fencing token of the claim."""

    key: UUID
    rule: int
    fence: int
    attempts: int
    channel: Channel | None = None
    delivery: Delivery | None = None


def has_due_notifications(now: datetime) -> bool:
    """Return whether a notification waits to be sent."""
    may_be_sent = build_released_filter() | build_digest_due_filter("rule__", now)
    return Notification.objects.filter(may_be_sent, status=WAITING, due_at__lte=now).exists()


def send_due_notifications(*, now: Callable[[], datetime] = get_database_time) -> int:
    """Send the due notifications unless another worker does, and return the number of attempts."""
    if not has_due_notifications(now()):
        return 0
    lease = claim_lease(now())
    if lease is None:
        return 0
    try:
        expire_notifications(now())
        release_digests(now())
        return OutboxSender(now).run()
    finally:
        release_lease(lease)


class OutboxSender:
    """One worker's time with the outbox."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now, self._began, self._tries = now, time.monotonic(), 0
        self._running: dict[Future[DeliveryResult], ClaimedNotification] = {}

    def run(self) -> int:
        """Send due notifications in all threads until none is due or the time is over."""
        pool = ThreadPoolExecutor(MOST_PARALLEL_SENDS, thread_name_prefix="notification")
        try:
            while self._claim_and_submit(pool) or self._running:
                remaining_seconds = ROUND_SECONDS - self._get_elapsed()
                done, _ = wait(self._running, max(0.0, min(POLL_SECONDS, remaining_seconds)), FIRST_COMPLETED)
                if not done and remaining_seconds <= 0:
                    logger.warning("%s receivers did not answer in time", len(self._running))
                    self._record_late_results()
                    break
                for future in done:
                    record_result(self._running.pop(future), _get_result(future), self._now())
        finally:
            # A hanging thread ends by itself; do not wait for it.
            pool.shutdown(wait=False, cancel_futures=True)
        return self._tries

    def _claim_and_submit(self, pool: ThreadPoolExecutor) -> bool:
        """Claim a notification for every free thread, and return whether there was one."""
        free = MOST_PARALLEL_SENDS - len(self._running)
        if self._get_elapsed() > CLAIM_WINDOW_SECONDS or not free:
            return False
        tries_before = self._tries
        busy = {running.rule for running in self._running.values()}
        for claim in claim_due_notifications(self._now(), free, busy):
            self._tries += 1
            if claim.channel is not None and claim.delivery is not None:
                future = pool.submit(claim.channel.send, claim.delivery, get_outgoing_reach())
                self._running[future] = claim
            # The secret of the next one may take seconds to read.
            if self._get_elapsed() > CLAIM_WINDOW_SECONDS:
                break
        return self._tries > tries_before

    def _record_late_results(self) -> None:
        """Let the threads of unfinished deliveries record their results; a newer claim makes them void."""
        for future, claim in self._running.items():
            future.add_done_callback(partial(_record_late_result, claim, self._now))

    def _get_elapsed(self) -> float:
        return time.monotonic() - self._began


def _record_late_result(
    claimed: ClaimedNotification, now: Callable[[], datetime], future: Future[DeliveryResult]
) -> None:
    if future.cancelled():
        return
    try:
        record_result(claimed, _get_result(future), now())
    finally:
        # The connection of this thread, which ends.
        connection.close()


def _get_result(future: Future[DeliveryResult]) -> DeliveryResult:
    """Return the delivery result; a bug must not block the other notifications."""
    error = future.exception()
    if error is None:
        return future.result()
    logger.error("A notification could not be sent", exc_info=error)
    return DeliveryResult(None, f"Internal error: {type(error).__name__}.")


def claim_due_notifications(
    now: datetime, most: int, busy: Collection[int] = ()
) -> Iterator[ClaimedNotification]:
    """Claim the next notification of each rule, longest waiting first, one when it is asked for."""
    due = Notification.objects.filter(
        build_released_filter(), rule=OuterRef("pk"), status=WAITING, due_at__lte=now
    )
    next_ones = due.order_by("due_at", "created_at", "pk")
    claimed = Notification.objects.filter(rule=OuterRef("pk"), status=WAITING, claimed_until__gt=now)
    rules = NotificationRule.objects.select_related("scope").filter(
        Q(paused_until=None) | Q(paused_until__lte=now)
    )
    rules = (
        rules.exclude(pk__in=busy)
        .filter(~Exists(claimed))
        .annotate(
            next=Subquery(next_ones.values("pk")[:1]), waits_since=Subquery(next_ones.values("due_at")[:1])
        )
    )
    chosen = rules.exclude(next=None).order_by("waits_since", "pk")[:most]
    for rule in chosen:
        if (claim := _claim_next(rule, now)) is not None:
            yield claim


def _claim_next(rule: NotificationRule, now: datetime) -> ClaimedNotification | None:
    """Return the notification after a conditional UPDATE that claims it; None if another worker has it."""
    channel = CHANNELS.get(rule.kind)
    if channel is not None and channel.replaces_older and drop_superseded(rule, now):
        # The next one may be among them.
        return None
    key = rule.next  # type: ignore[attr-defined]
    free = Notification.objects.filter(pk=key, status=WAITING, due_at__lte=now).filter(
        build_unclaimed_filter(now)
    )
    if not free.update(attempts=F("attempts") + 1, sends=F("sends") + 1, claimed_until=now + CLAIM_DURATION):
        return None
    row = Notification.objects.filter(pk=key).first()
    if row is None:
        return None
    claimed = ClaimedNotification(row.pk, rule.pk, row.sends, row.attempts)
    if channel is None:
        # During an upgrade, a rule of the next release.
        record_result(
            claimed, DeliveryResult(None, f"No channel of this release is called {rule.kind}."), now
        )
        return None
    try:
        delivery = _build_delivery(rule, row, now)
    except TokenUnavailable as problem:
        record_result(
            claimed, DeliveryResult(None, format_reason(f"Could not read the token: {problem}")), now
        )
        return None
    except DecryptionFailed as problem:
        record_result(claimed, DeliveryResult(None, f"Could not decrypt the address: {problem}"), now)
        return None
    if not channel.has_report(delivery):
        end_superseded(row, now)
        return None
    return replace(claimed, channel=channel, delivery=delivery)


def _build_delivery(rule: NotificationRule, row: Notification, now: datetime) -> Delivery:
    """Return the attempt of a notification. Raises `TokenUnavailable` and `DecryptionFailed`."""
    delivery = Delivery(
        str(row.pk), row.event, rule.url, read_token(rule), row.body, int(now.timestamp()), rule.options
    )
    if CHANNELS[rule.kind].reports_commits and row.subject:
        return replace(delivery, newer=find_newer_reports(row), reported=find_reported_environments(row))
    return delivery


def record_result(claimed: ClaimedNotification, answer: DeliveryResult, now: datetime) -> None:
    """Store a delivery result, unless the notification has a newer claim or is deleted."""
    attempt = Notification.objects.filter(pk=claimed.key, sends=claimed.fence, status=WAITING)
    rule = NotificationRule.objects.filter(pk=claimed.rule)
    if answer.is_delivered:
        is_newest = attempt.update(
            status=DELIVERED, response_status=answer.status_code, reason="", ended_at=now, claimed_until=None
        )
        if is_newest:
            _end_backoff(rule)
        return
    values = {"response_status": answer.status_code, "reason": answer.reason, "claimed_until": None}
    if answer.is_partial or claimed.attempts >= NOTIFICATION_ATTEMPTS:
        is_newest = attempt.update(status=FAILED, ended_at=now, **values)
    else:
        delay = RETRY_DELAYS[min(claimed.attempts, len(RETRY_DELAYS)) - 1]
        is_newest = attempt.update(due_at=now + delay, **values)
    if not is_newest:
        return
    if answer.is_partial:
        _end_backoff(rule)
    else:
        _back_off_rule(rule, now)


def _end_backoff(rule: QuerySet[NotificationRule]) -> None:
    rule.exclude(failures=0).update(failures=0, paused_until=None)


def _back_off_rule(rule: QuerySet[NotificationRule], now: datetime) -> None:
    """Pause a rule for longer with each failed attempt."""
    rule.update(failures=F("failures") + 1)
    failures = rule.values_list("failures", flat=True).first() or 1
    rule.update(paused_until=now + RULE_BACKOFFS[min(failures, len(RULE_BACKOFFS)) - 1])


def expire_notifications(now: datetime) -> int:
    """Fail notifications that are too old or crashed in their last attempt, and return their number."""
    waiting = Notification.objects.filter(status=WAITING).filter(build_unclaimed_filter(now))
    dead = waiting.filter(attempts__gte=NOTIFICATION_ATTEMPTS)
    ended = dead.update(
        status=FAILED, ended_at=now, claimed_until=None, reason="The result of the last attempt is unknown."
    )
    # What waits for a digest has not been tried yet: the digest has a deadline of its own.
    expired = waiting.filter(build_released_filter(), deadline_at__lte=now)
    untried = expired.filter(reason="")
    ended += untried.update(
        status=FAILED,
        ended_at=now,
        claimed_until=None,
        reason=f"Not sent within {NOTIFICATION_HOURS}: earlier deliveries to this receiver kept failing.",
    )
    return ended + expired.update(status=FAILED, ended_at=now, claimed_until=None)


NOTIFICATION_RETENTION: Final = (
    RetentionRule(
        "Notifications",
        Notification.objects.exclude(status=Notification.Status.WAITING),
        "created_at",
        setting="SLIPWAY_KEEP_NOTIFICATIONS_DAYS",
    ),
)
