"""Connections to the cache: one pool for all requests of a process."""

from django.core.cache.backends.redis import RedisCache
from redis import ConnectionPool

from config import settings as product_settings


def get_pool() -> ConnectionPool:
    """Return the pool of a cache that is made as for a request."""
    default = product_settings.CACHES["default"]
    made = RedisCache(default["LOCATION"], {"OPTIONS": dict(default["OPTIONS"])})
    return made._cache.get_client().connection_pool


def test_the_caches_of_two_requests_share_their_connections() -> None:
    assert get_pool() is get_pool()
