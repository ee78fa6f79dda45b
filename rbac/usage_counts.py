"""Expiring counters that all processes share, with a per-process fallback when the cache is down."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import redis
from django.core.cache import cache
from django.core.cache.backends.base import BaseCache
from django.core.cache.backends.locmem import LocMemCache

Result = TypeVar("Result")
# Nobody waits for a cache that hangs more often than this.
_CACHE_RETRY_SECONDS = 5.0
_log = logging.getLogger(__name__)


class UsageCounts:
    """A limit must not fall, nor a page fail, for want of the cache: this process then counts by itself."""

    def __init__(self) -> None:
        self._own: BaseCache = LocMemCache("counts", {})
        self._away_until = 0.0

    def increment(self, key: str, *, seconds: int) -> int:
        """Count one more under `key`, and return how many there are; a new count ends after `seconds`."""
        return self._run(lambda store: _increment(store, key, seconds))

    def get(self, key: str) -> int:
        """How many there are under `key`."""
        return self._run(lambda store: int(store.get(key, 0)))

    def decrement(self, key: str) -> None:
        """Count one less, if there is any."""
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
