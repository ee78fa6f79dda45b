"""Rate limits of AWS APIs: token buckets shared by all workers through Valkey."""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import redis
from django.conf import settings

from aws.errors import AwsError, Throttled
from deployments.journal.engine_signals import RateLimited

LONGEST_BACKOFF_SECONDS = 30
BACKOFF_RESET_SECONDS = 120
# Lifetime of a reservation that is not redeemed.
RESERVATION_TTL_SECONDS = 120
BUCKET_TTL_SECONDS = 3600


@dataclass(frozen=True)
class TokenRequest:
    """Request for `count` tokens of one bucket, or with `throttled` the report of a throttled call.

    `burst` and `per_second` are its size and refill; a refill of 0 means unlimited. `now` is in seconds.
    `reservation` names the holder that queues if there is no token; empty for none.
    """

    key: str
    burst: float
    per_second: float
    now: float
    count: int = 0
    reservation: str = ""
    throttled: bool = False


@dataclass(frozen=True)
class TokenGrant:
    """Number of granted tokens, and the seconds to wait if there are none."""

    granted: int
    wait: float


@dataclass
class _Bucket:
    full_at: float = 0.0
    rest_until: float = 0.0
    throttled_at: float = 0.0
    times: int = 0


@dataclass
class LocalBuckets:
    """Buckets of one process, used without Valkey."""

    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _reservations: dict[str, float] = field(default_factory=dict)

    def draw(self, request: TokenRequest) -> TokenGrant:
        """Return the same grant as the script in Valkey."""
        bucket = self._buckets.setdefault(request.key, _Bucket())
        if request.throttled:
            _extend_backoff(bucket, request)
            return TokenGrant(0, bucket.rest_until - request.now)
        if request.now < bucket.rest_until:
            return TokenGrant(0, bucket.rest_until - request.now)
        if not request.per_second:
            return TokenGrant(request.count, 0.0)
        ready = self._reservations.get(request.reservation)
        if ready is not None:
            return self._redeem(request, ready)
        return self._draw_tokens(bucket, request)

    def _redeem(self, request: TokenRequest, ready: float) -> TokenGrant:
        if request.now < ready:
            return TokenGrant(0, ready - request.now)
        del self._reservations[request.reservation]
        return TokenGrant(1, 0.0)

    def _draw_tokens(self, bucket: _Bucket, request: TokenRequest) -> TokenGrant:
        each, now = 1 / request.per_second, request.now
        room = request.burst * each
        full_at = max(bucket.full_at, now)
        granted = min(request.count, max(math.floor((room - (full_at - now)) / each + 1e-6), 0))
        bucket.full_at = full_at + granted * each
        if granted:
            return TokenGrant(granted, 0.0)
        ready = full_at + each - room
        if request.reservation:
            self._reservations[request.reservation] = ready
            bucket.full_at = full_at + each
        return TokenGrant(0, ready - now)

    def read_times(self, key: str, reservation: str) -> tuple[float, float]:
        """Return when a reservation is ready, and until when a bucket rests; 0 for none."""
        bucket = self._buckets.get(key, _Bucket())
        return self._reservations.get(reservation, 0.0), bucket.rest_until

    def reset(self) -> None:
        """Restore full buckets without reservations."""
        self._buckets.clear()
        self._reservations.clear()


def _extend_backoff(bucket: _Bucket, request: TokenRequest) -> None:
    """Double the backoff; calls in flight together count as throttled once."""
    now = request.now
    if now >= bucket.rest_until:
        is_repeated = now - bucket.throttled_at < BACKOFF_RESET_SECONDS
        bucket.times = bucket.times + 1 if is_repeated else 1
        bucket.rest_until = now + min(2 ** (bucket.times - 1), LONGEST_BACKOFF_SECONDS)
    bucket.throttled_at = now
    if request.per_second:
        bucket.full_at = max(bucket.full_at, bucket.rest_until + request.burst / request.per_second)


# KEYS: bucket, reservation. ARGV: fields of the request. Result: tokens, seconds to wait.
TOKEN_SCRIPT = f"""
local bucket, reservation = KEYS[1], KEYS[2]
local burst, rate, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local count, is_queued, throttled = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] == '1'
local kept = redis.call('HMGET', bucket, 'full_at', 'rest_until', 'throttled_at', 'times')
local full_at, rest_until = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
local throttled_at, times = tonumber(kept[3] or 0), tonumber(kept[4] or 0)

local function answer(granted, wait)
  return {{granted, string.format('%.6f', wait)}}
end

local function keep(ahead)
  redis.call('HSET', bucket, 'full_at', string.format('%.6f', full_at),
    'rest_until', string.format('%.6f', rest_until),
    'throttled_at', string.format('%.6f', throttled_at), 'times', times)
  redis.call('EXPIRE', bucket, math.ceil(math.max(ahead, 0)) + {BUCKET_TTL_SECONDS})
end

if throttled then
  if now >= rest_until then
    times = (now - throttled_at < {BACKOFF_RESET_SECONDS}) and times + 1 or 1
    rest_until = now + math.min(2 ^ (times - 1), {LONGEST_BACKOFF_SECONDS})
  end
  throttled_at = now
  if rate > 0 then full_at = math.max(full_at, rest_until + burst / rate) end
  keep(full_at - now)
  return answer(0, rest_until - now)
end
if now < rest_until then return answer(0, rest_until - now) end
if rate == 0 then return answer(count, 0) end
if is_queued then
  local ready = tonumber(redis.call('GET', reservation) or -1)
  if ready >= 0 and now < ready then return answer(0, ready - now) end
  if ready >= 0 then
    redis.call('DEL', reservation)
    return answer(1, 0)
  end
end

local each = 1 / rate
local room = burst * each
full_at = math.max(full_at, now)
local granted = math.min(count, math.max(math.floor((room - (full_at - now)) / each + 1e-6), 0))
if granted > 0 then
  full_at = full_at + granted * each
  keep(full_at - now)
  return answer(granted, 0)
end
local ready = full_at + each - room
if is_queued then
  local ttl = math.ceil(ready - now) + {RESERVATION_TTL_SECONDS}
  redis.call('SET', reservation, string.format('%.6f', ready), 'EX', ttl)
  full_at = full_at + each
end
keep(full_at - now)
return answer(0, ready - now)
"""


def build_script_arguments(request: TokenRequest) -> tuple[list[str], list[str]]:
    """Return the keys and arguments of the script for a request."""
    return [request.key, request.reservation or request.key], [
        f"{request.burst:.6f}",
        f"{request.per_second:.6f}",
        f"{request.now:.6f}",
        str(request.count),
        "1" if request.reservation else "0",
        "1" if request.throttled else "0",
    ]


logger = logging.getLogger(__name__)
LONGEST_WAIT = timedelta(seconds=30)
VALKEY_TIMEOUT_SECONDS = 0.5
LOCAL_FALLBACK_SECONDS = 5.0


@dataclass(frozen=True)
class RateLimit:
    """Rate limit of an AWS API: burst and refill per second (ECS request throttling)."""

    name: str
    burst: float
    per_second: float


SERVICE_READS = RateLimit("service reads", 100, 20)
_OPERATIONS = {
    SERVICE_READS: ("DescribeServices", "ListServices"),
    RateLimit("service changes", 50, 5): ("CreateService", "UpdateService", "DeleteService"),
    RateLimit("definition reads", 50, 20): ("DescribeTaskDefinition", "ListTaskDefinitions"),
    RateLimit("definition changes", 20, 1): ("RegisterTaskDefinition", "DeregisterTaskDefinition"),
    RateLimit("task reads", 100, 20): ("DescribeTasks", "ListTasks", "DescribeContainerInstances"),
    RateLimit("task changes", 100, 40): ("RunTask", "StopTask", "ExecuteCommand"),
    RateLimit("deployment reads", 50, 20): ("ListServiceDeployments", "DescribeServiceDeployments"),
    RateLimit("revision reads", 50, 20): ("DescribeServiceRevisions",),
    RateLimit("deployment stops", 10, 1): ("StopServiceDeployment", "ContinueServiceDeployment"),
    RateLimit("tags", 20, 10): ("TagResource", "UntagResource", "ListTagsForResource"),
}
_LIMITS = {operation: limit for limit, operations in _OPERATIONS.items() for operation in operations}


def get_rate_limit(service: str, operation: str) -> RateLimit:
    """Return the rate limit of a call; an unlimited one, with backoff only, if AWS documents none."""
    limit = _LIMITS.get(operation) if service == "ecs" else None
    return limit or RateLimit(f"{service} calls", 0, 0)


def take_token(rate_limit_key: str, service: str, operation: str, *, holder: str, now: datetime) -> None:
    """Take one token, or raise `RateLimited` with a reservation for `holder`."""
    limit = get_rate_limit(service, operation)
    grant = _query_buckets(
        _build_request(
            rate_limit_key, limit, now, count=1, reservation=f"{_get_key(rate_limit_key, limit)}:{holder}"
        )
    )
    if not grant.granted:
        raise RateLimited(now + min(timedelta(seconds=grant.wait), LONGEST_WAIT))


def take_tokens(rate_limit_key: str, limit: RateLimit, count: int, now: datetime) -> int:
    """Take up to `count` tokens without a reservation, and return how many were granted."""
    return _query_buckets(_build_request(rate_limit_key, limit, now, count=count)).granted


def record_throttling(rate_limit_key: str, error: AwsError, now: datetime) -> None:
    """Record a throttled call: all callers of its bucket wait, twice as long each time."""
    if isinstance(error, Throttled):
        _query_buckets(
            _build_request(
                rate_limit_key, get_rate_limit(error.service, error.operation), now, throttled=True
            )
        )


@dataclass(frozen=True)
class RateLimitWait:
    """Wait for a token of a rate limit, or for the end of a pause after AWS throttled a call."""

    limit: str
    until: datetime
    is_throttled: bool


def find_rate_limit_wait(rate_limit_key: str, *, holder: str, now: datetime) -> RateLimitWait | None:
    """Return what the calls of `holder` wait for; a reservation comes before a pause of all calls."""
    limits = list(_OPERATIONS)
    times = _read_times([_get_key(rate_limit_key, limit) for limit in limits], holder)
    waits = [
        RateLimitWait(limit.name, datetime.fromtimestamp(moment, UTC), is_throttled)
        for is_throttled in (False, True)
        for limit, moments in zip(limits, times, strict=True)
        if (moment := moments[is_throttled]) > now.timestamp()
    ]
    return next(iter(waits), None)


def _read_times(keys: Sequence[str], holder: str) -> list[tuple[float, float]]:
    """Return for each bucket when the reservation of `holder` is ready, and until when it rests."""
    client = _get_client()
    if client is None or time.monotonic() < _buckets.local_until:
        return [_buckets.own.read_times(key, f"{key}:{holder}") for key in keys]
    try:
        with client.pipeline(transaction=False) as batch:
            for key in keys:
                batch.get(f"{key}:{holder}")
                batch.hget(key, "rest_until")
            values = [float(value or 0) for value in batch.execute()]
    except redis.RedisError:
        return [(0.0, 0.0)] * len(keys)
    return list(zip(values[::2], values[1::2], strict=True))


def reset_buckets() -> None:
    """Reset this process's buckets and use Valkey again."""
    _buckets.own.reset()
    _buckets.local_until = 0.0


def _get_key(rate_limit_key: str, limit: RateLimit) -> str:
    return f"quota:{rate_limit_key}:{limit.name}"


def _build_request(
    rate_limit_key: str,
    limit: RateLimit,
    now: datetime,
    *,
    count: int = 0,
    reservation: str = "",
    throttled: bool = False,
) -> TokenRequest:
    share: float = settings.AWS_QUOTA_SHARE
    # A bucket smaller than one token would never grant one.
    burst = max(limit.burst * share, 1.0)
    return TokenRequest(
        _get_key(rate_limit_key, limit),
        burst,
        limit.per_second * share,
        now.timestamp(),
        count,
        reservation,
        throttled,
    )


@dataclass
class _Buckets:
    """Buckets and Valkey connections of this process."""

    own: LocalBuckets = field(default_factory=LocalBuckets)
    clients: dict[str, redis.Redis] = field(default_factory=dict)
    scripts: dict[redis.Redis, Any] = field(default_factory=dict)
    local_until: float = 0.0


_buckets = _Buckets()


def _query_buckets(request: TokenRequest) -> TokenGrant:
    """Query the shared buckets; this process's own for some seconds if Valkey fails."""
    client = _get_client()
    if client is None or time.monotonic() < _buckets.local_until:
        return _buckets.own.draw(request)
    keys, values = build_script_arguments(request)
    try:
        granted, wait = cast("list[str]", _register_script(client)(keys, values))
    except redis.RedisError as error:
        _buckets.local_until = time.monotonic() + LOCAL_FALLBACK_SECONDS
        logger.warning("Valkey does not answer, this process counts its calls to AWS alone: %s", error)
        return _buckets.own.draw(request)
    return TokenGrant(int(granted), float(wait))


def _register_script(client: redis.Redis) -> Any:
    """Return the registered script; Valkey gets its text only if it does not know the hash."""
    if client not in _buckets.scripts:
        _buckets.scripts[client] = client.register_script(TOKEN_SCRIPT)
    return _buckets.scripts[client]


def _get_client() -> redis.Redis | None:
    """Return the connection to the cache's Valkey; None for another cache, as in tests."""
    cache: Any = settings.CACHES["default"]
    if not cache["BACKEND"].endswith("RedisCache"):
        return None
    address = cache["LOCATION"]
    if address not in _buckets.clients:
        _buckets.clients[address] = redis.Redis.from_url(
            address, socket_timeout=VALKEY_TIMEOUT_SECONDS, socket_connect_timeout=VALKEY_TIMEOUT_SECONDS
        )
    return _buckets.clients[address]
