"""Sends what is due: claimed under a lease, posted, recorded; a death in between sends it once more."""

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from guards.limits import NOTIFICATION_ATTEMPTS, NOTIFICATION_HOURS
from notifications.courier import leave, take
from notifications.models import Notification, NotificationRule
from notifications.posting import Answer, Letter, post
from rbac.encryption import WrongKey
from web.clock import database_now
from web.outgoing import own_reach

logger = logging.getLogger(__name__)
WAITING, DELIVERED, FAILED = Notification.Status
# As many at once, each of another rule: what one rule is told comes in order, and one that hangs holds one.
AT_ONCE: Final = 16
# Nothing new is begun after the first; what has not ended by the second is left to its lease.
BEGINS_FOR, LASTS = 20.0, 38.0
# While receivers are waited for, what became due for others is looked for this often.
LOOKS_EVERY: Final = 1.0
CLAIM: Final = timedelta(seconds=60)
# Between the attempts of one notification.
GAPS: Final = tuple(timedelta(seconds=each) for each in (10, 30, 120, 600, 1800, 3600, 10_800))
# How long a rule is left alone whose tries fail one after the other: a thousand that wait cost one try each.
HOLDS: Final = tuple(timedelta(seconds=each) for each in (2, 5, 15, 30, 60))


@dataclass(frozen=True)
class Claimed:
    """One notification that is this worker's to send; `sends` is the fence of the claim."""

    key: UUID
    rule: int
    sends: int
    attempts: int
    letter: Letter | None = None


def is_due(now: datetime) -> bool:
    """Return whether a notification waits to be sent."""
    return Notification.objects.filter(status=WAITING, due_at__lte=now).exists()


def send_due(*, now: Callable[[], datetime] = database_now) -> int:
    """Send what is due, if no other worker is at it, and say how many tries that took."""
    if not is_due(now()):
        return 0
    lease = take(now())
    if lease is None:
        return 0
    try:
        give_up(now())
        return _Round(now).run()
    finally:
        leave(lease)


class _Round:
    """One worker's time with the outbox."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now, self._began, self._tries = now, time.monotonic(), 0
        self._running: dict[Future[Answer], Claimed] = {}

    def run(self) -> int:
        """Keep the threads busy until nothing is due or the time is up."""
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="notification")
        try:
            while self._begin(pool) or self._running:
                left = LASTS - self._spent()
                done, _ = wait(self._running, max(0.0, min(LOOKS_EVERY, left)), FIRST_COMPLETED)
                if not done and left <= 0:
                    logger.warning("%s receivers did not answer in time", len(self._running))
                    break
                for future in done:
                    record(self._running.pop(future), _answer(future), self._now())
        finally:
            # A thread that hangs ends by itself; nobody waits for it here.
            pool.shutdown(wait=False, cancel_futures=True)
        return self._tries

    def _begin(self, pool: ThreadPoolExecutor) -> bool:
        """Claim for every thread that is free, and say whether there was anything."""
        free = AT_ONCE - len(self._running)
        if self._spent() > BEGINS_FOR or not free:
            return False
        found = claim_due(self._now(), free, {one.rule for one in self._running.values()})
        for one in found:
            if one.letter is not None:
                self._running[pool.submit(post, one.letter, own_reach())] = one
        self._tries += len(found)
        return bool(found)

    def _spent(self) -> float:
        return time.monotonic() - self._began


def _answer(future: Future[Answer]) -> Answer:
    """What came of it; a mistake of ours is no reason to hold up the others."""
    error = future.exception()
    if error is None:
        return future.result()
    logger.error("A notification could not be sent", exc_info=error)
    return Answer(None, f"Slipway itself failed: {type(error).__name__}.")


def claim_due(now: datetime, most: int, busy: Collection[int] = ()) -> list[Claimed]:
    """Claim the next notification of each of so many rules: those whose next has waited longest."""
    due = Notification.objects.filter(rule=OuterRef("pk"), status=WAITING, due_at__lte=now)
    next_ones = due.order_by("due_at", "created_at", "pk")
    claimed = Notification.objects.filter(rule=OuterRef("pk"), status=WAITING, claimed_until__gt=now)
    rules = NotificationRule.objects.filter(Q(held_until=None) | Q(held_until__lte=now))
    rules = (
        rules.exclude(pk__in=busy)
        .filter(~Exists(claimed))
        .annotate(
            next=Subquery(next_ones.values("pk")[:1]), waits_since=Subquery(next_ones.values("due_at")[:1])
        )
    )
    chosen = rules.exclude(next=None).order_by("waits_since", "pk")[:most]
    return [one for rule in chosen if (one := _claim(rule, now)) is not None]


def _claim(rule: NotificationRule, now: datetime) -> Claimed | None:
    """The one conditional UPDATE that makes it this worker's; None where another one was faster."""
    key = rule.next  # type: ignore[attr-defined]
    free = Notification.objects.filter(pk=key, status=WAITING, due_at__lte=now).filter(_unclaimed(now))
    if not free.update(attempts=F("attempts") + 1, sends=F("sends") + 1, claimed_until=now + CLAIM):
        return None
    row = Notification.objects.filter(pk=key).first()
    if row is None:
        return None
    claimed = Claimed(row.pk, rule.pk, row.sends, row.attempts)
    try:
        letter = Letter(str(row.pk), row.event, rule.url, rule.secret, row.body, int(now.timestamp()))
    except WrongKey as problem:
        record(claimed, Answer(None, f"Its address cannot be read: {problem}"), now)
        return None
    return replace(claimed, letter=letter)


def _unclaimed(now: datetime) -> Q:
    return Q(claimed_until=None) | Q(claimed_until__lte=now)


def record(claimed: Claimed, answer: Answer, now: datetime) -> None:
    """Write down what became of it; nothing where it is no longer this claim's, or was deleted."""
    mine = Notification.objects.filter(pk=claimed.key, sends=claimed.sends, status=WAITING)
    rule = NotificationRule.objects.filter(pk=claimed.rule)
    if answer.is_taken:
        mine.update(status=DELIVERED, answer_code=answer.code, reason="", ended_at=now, claimed_until=None)
        rule.exclude(failures=0).update(failures=0, held_until=None)
        return
    said = {"answer_code": answer.code, "reason": answer.reason, "claimed_until": None}
    if claimed.attempts >= NOTIFICATION_ATTEMPTS:
        mine.update(status=FAILED, ended_at=now, **said)
    else:
        mine.update(due_at=now + GAPS[min(claimed.attempts, len(GAPS)) - 1], **said)
    _hold(rule, now)


def _hold(rule: QuerySet[NotificationRule], now: datetime) -> None:
    """Leave a rule alone for longer with each try that fails."""
    rule.update(failures=F("failures") + 1)
    failures = rule.values_list("failures", flat=True).first() or 1
    rule.update(held_until=now + HOLDS[min(failures, len(HOLDS)) - 1])


def give_up(now: datetime) -> int:
    """End what was tried for too long, and what died with its last attempt; how much that was."""
    waiting = Notification.objects.filter(status=WAITING).filter(_unclaimed(now))
    dead = waiting.filter(attempts__gte=NOTIFICATION_ATTEMPTS)
    ended = dead.update(
        status=FAILED, ended_at=now, claimed_until=None, reason="Nothing is known of the last attempt."
    )
    late = waiting.filter(give_up_at__lte=now)
    untried = late.filter(reason="")
    ended += untried.update(
        status=FAILED,
        ended_at=now,
        claimed_until=None,
        reason=f"It was not its turn within {NOTIFICATION_HOURS}: those before it were not taken.",
    )
    return ended + late.update(status=FAILED, ended_at=now, claimed_until=None)
