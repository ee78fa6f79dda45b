"""One pool of connections to the cache for a whole process."""

from functools import cache
from typing import Any

import redis


class SharedConnectionPool(redis.ConnectionPool):
    """Pool that is the same for each URL and options, in all threads of this process.

    Django makes a cache for each request of an ASGI server, and with it a pool. Its connection stayed open
    until the next garbage collection of old objects.
    """

    @classmethod
    def from_url(cls, url: str, **options: Any) -> "SharedConnectionPool":
        """Return the pool of these arguments."""
        return _get_pool(url, tuple(sorted(options.items(), key=lambda option: option[0])))


@cache
def _get_pool(url: str, options: tuple[tuple[str, Any], ...]) -> SharedConnectionPool:
    return super(SharedConnectionPool, SharedConnectionPool).from_url(url, **dict(options))
