"""Expiring counters that all processes share, with a per-process fallback when the cache is down."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import redis
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache

from guards import limits

Result = TypeVar("Result")
# After this many timeouts in a row, the cache is skipped.
_CACHE_RETRY_SECONDS = 5.0
# Some 35 MB. Beyond, counters are dropped, and with them failed sign-ins.
_MOST_OWN_COUNTERS = 100_000
_log = logging.getLogger(__name__)
_is_counting: ContextVar[bool] = ContextVar("is_counting", default=True)


@contextmanager
def without_counting() -> Iterator[None]:
    """Leave all counters as they are: the block repeats what was counted before."""
    token = _is_counting.set(False)
    try:
        yield
    finally:
        _is_counting.reset(token)


class UsageCounts:
    """Counters in the cache; without the cache, each process counts by itself."""

    def __init__(self) -> None:
        self._own: BaseCache = LocMemCache("counts", {"OPTIONS": {"MAX_ENTRIES": _MOST_OWN_COUNTERS}})
        self._away_until = 0.0

    def increment(self, key: str, *, seconds: int) -> int:
        """Increment the counter `key`, and return it; a new counter expires after `seconds`."""
        if not _is_counting.get():
            return self.get(key)
        return self._run(lambda store: _increment(store, key, seconds))

    def get(self, key: str) -> int:
        """Return the counter `key`."""
        return self._run(lambda store: int(store.get(key, 0)))

    def decrement(self, key: str) -> None:
        """Decrement the counter, but not below zero."""
        self._run(lambda store: store.decr(key) if store.get(key, 0) > 0 else 0)

    def reset(self, key: str) -> None:
        """Count from zero."""
        self._run(lambda store: store.delete(key))

    def _run(self, question: Callable[[BaseCache], Result]) -> Result:
        if time.monotonic() >= self._away_until:
            try:
                return question(cache)
            except redis.RedisError as problem:
                self._away_until = time.monotonic() + _CACHE_RETRY_SECONDS
                _log.warning("The cache does not answer, limits are counted per process: %s", problem)
        return question(self._own)


def _increment(store: BaseCache, key: str, seconds: int) -> int:
    try:
        count = store.incr(key)
    except ValueError:
        store.add(key, 0, timeout=seconds)
        count = store.incr(key)
    if count == 1:
        # The count may have ended between two of these lines; one without an end would lock out for good.
        store.touch(key, timeout=seconds)
    return count


counts = UsageCounts()


# Kind of attempts with a typed user name; no name that people type counts as an attempt of another kind.
SIGN_IN = "sign-in"


@dataclass(frozen=True)
class AttemptLimit:
    """So many failures in so many seconds, counted by this."""

    by: str
    failures: int
    seconds: int

    def key(self, subject: str, kind: str = SIGN_IN) -> str:
        # User input may be long, or contain characters that a cache refuses.
        digest = hashlib.sha256(subject.strip().lower().encode("utf-8", "surrogatepass")).hexdigest()
        return f"{kind}:{self.by}:{self.seconds}:{digest}"


# The third one is the lockout: patient guessing costs a quarter of an hour.
SIGN_IN_LIMITS = (
    AttemptLimit("account", failures=limits.SIGN_INS_PER_ACCOUNT, seconds=60),
    AttemptLimit("address", failures=limits.SIGN_INS_PER_ADDRESS, seconds=60),
    AttemptLimit("account", failures=limits.SIGN_INS_PER_QUARTER_HOUR, seconds=15 * 60),
)


def count_attempt(*, account: str, address: str, kind: str = SIGN_IN) -> bool:
    """Count an attempt in advance, and return whether it is allowed.

    Accounts have a counter for each kind, addresses one for all kinds. Counting in advance leaves no gap for
    parallel attempts; `reset_attempts` reverts a successful one. A refused address counts for no account: it
    could fill the counters with names.
    """
    return _count("address", address, SIGN_IN) and _count("account", account, kind)


def _count(by: str, subject: str, kind: str) -> bool:
    within = [
        counts.increment(limit.key(subject, kind), seconds=limit.seconds) <= limit.failures
        for limit in SIGN_IN_LIMITS
        if limit.by == by
    ]
    return all(within)


def reset_attempts(*, account: str, address: str, kind: str = SIGN_IN) -> None:
    """Reset the counter of the account after a successful sign-in."""
    for limit in SIGN_IN_LIMITS:
        key = _build_key(limit, account, address, kind)
        if limit.by == "account":
            counts.reset(key)
        else:
            counts.decrement(key)


def _build_key(limit: AttemptLimit, account: str, address: str, kind: str) -> str:
    return limit.key(account, kind) if limit.by == "account" else limit.key(address)


def is_within_limit(event: str, subject: str, *, at_most: int, seconds: int = 60) -> bool:
    """Count an `event` of `subject`, and return whether the limit allows it."""
    return counts.increment(AttemptLimit(event, at_most, seconds).key(subject), seconds=seconds) <= at_most
