"""Rate limits of AWS APIs: token buckets shared by all workers through Valkey."""

import logging
import math
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import redis
from django.conf import settings

from aws.errors import AwsError, Throttled
from deployments.journal.engine_signals import RateLimited

LONGEST_BACKOFF_SECONDS = 30
BACKOFF_RESET_SECONDS = 120
# A place in line is kept for somebody who comes late, and lost if he never comes.
PLACE_TTL_SECONDS = 120
BUCKET_TTL_SECONDS = 3600


@dataclass(frozen=True)
class TokenRequest:
    """What is asked of one bucket: `wanted` tokens, or, when AWS has `throttled` a call, rest for all.

    `burst` and `per_second` are its size and refill; 0 each second means that it never runs out. `now` is in
    seconds. `place` names whoever waits in line if there is no token; empty for nobody.
    """

    key: str
    burst: float
    per_second: float
    now: float
    wanted: int = 0
    place: str = ""
    throttled: bool = False


@dataclass(frozen=True)
class TokenGrant:
    """How many tokens there were, and for how many seconds to wait when there were none."""

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
    """The buckets of one process, for when there is no Valkey."""

    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _places: dict[str, float] = field(default_factory=dict)

    def ask(self, question: TokenRequest) -> TokenGrant:
        """Answer as the script does in Valkey."""
        bucket = self._buckets.setdefault(question.key, _Bucket())
        if question.throttled:
            _extend_backoff(bucket, question)
            return TokenGrant(0, bucket.rest_until - question.now)
        if question.now < bucket.rest_until:
            return TokenGrant(0, bucket.rest_until - question.now)
        if not question.per_second:
            return TokenGrant(question.wanted, 0.0)
        ready = self._places.get(question.place)
        if ready is not None:
            return self._in_line(question, ready)
        return self._draw(bucket, question)

    def _in_line(self, question: TokenRequest, ready: float) -> TokenGrant:
        if question.now < ready:
            return TokenGrant(0, ready - question.now)
        del self._places[question.place]
        return TokenGrant(1, 0.0)

    def _draw(self, bucket: _Bucket, question: TokenRequest) -> TokenGrant:
        each, now = 1 / question.per_second, question.now
        room = question.burst * each
        full_at = max(bucket.full_at, now)
        granted = min(question.wanted, max(math.floor((room - (full_at - now)) / each + 1e-6), 0))
        bucket.full_at = full_at + granted * each
        if granted:
            return TokenGrant(granted, 0.0)
        ready = full_at + each - room
        if question.place:
            self._places[question.place] = ready
            bucket.full_at = full_at + each
        return TokenGrant(0, ready - now)

    def forget(self) -> None:
        """Full buckets and no lines, as at the start."""
        self._buckets.clear()
        self._places.clear()


def _extend_backoff(bucket: _Bucket, question: TokenRequest) -> None:
    """Twice as long each time; calls that were under way together are throttled once."""
    now = question.now
    if now >= bucket.rest_until:
        again = now - bucket.throttled_at < BACKOFF_RESET_SECONDS
        bucket.times = bucket.times + 1 if again else 1
        bucket.rest_until = now + min(2 ** (bucket.times - 1), LONGEST_BACKOFF_SECONDS)
    bucket.throttled_at = now
    if question.per_second:
        bucket.full_at = max(bucket.full_at, bucket.rest_until + question.burst / question.per_second)


# KEYS: the bucket, the place in line. ARGV: the question's fields. The answer: tokens, seconds to wait.
TOKEN_SCRIPT = f"""
local bucket, place = KEYS[1], KEYS[2]
local burst, rate, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wanted, in_line, throttled = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6] == '1'
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
if rate == 0 then return answer(wanted, 0) end
if in_line then
  local ready = tonumber(redis.call('GET', place) or -1)
  if ready >= 0 and now < ready then return answer(0, ready - now) end
  if ready >= 0 then
    redis.call('DEL', place)
    return answer(1, 0)
  end
end

local each = 1 / rate
local room = burst * each
full_at = math.max(full_at, now)
local granted = math.min(wanted, math.max(math.floor((room - (full_at - now)) / each + 1e-6), 0))
if granted > 0 then
  full_at = full_at + granted * each
  keep(full_at - now)
  return answer(granted, 0)
end
local ready = full_at + each - room
if in_line then
  redis.call('SET', place, string.format('%.6f', ready), 'EX', math.ceil(ready - now) + {PLACE_TTL_SECONDS})
  full_at = full_at + each
end
keep(full_at - now)
return answer(0, ready - now)
"""


def build_script_arguments(question: TokenRequest) -> tuple[list[str], list[str]]:
    """Return the keys and arguments that the script takes for a question."""
    return [question.key, question.place or question.key], [
        f"{question.burst:.6f}",
        f"{question.per_second:.6f}",
        f"{question.now:.6f}",
        str(question.wanted),
        "1" if question.place else "0",
        "1" if question.throttled else "0",
    ]


logger = logging.getLogger(__name__)
LONGEST_WAIT = timedelta(seconds=30)
VALKEY_TIMEOUT_SECONDS = 0.5
LOCAL_FALLBACK_SECONDS = 5.0


@dataclass(frozen=True)
class RateLimit:
    """One of AWS's buckets: how many calls at once, how many each second (ECS, request throttling)."""

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
    RateLimit("tags", 20, 10): ("TagResource", "UntagResource", "ListTagsForResource"),
}
_LIMITS = {operation: limit for limit, operations in _OPERATIONS.items() for operation in operations}


def get_rate_limit(service: str, operation: str) -> RateLimit:
    """Return the bucket that a call draws from. Where AWS tells no limit, calls only rest when throttled."""
    found = _LIMITS.get(operation) if service == "ecs" else None
    return found or RateLimit(f"{service} calls", 0, 0)


def take_token(rate_limit_key: str, service: str, operation: str, *, holder: str, now: datetime) -> None:
    """Take one token, or raise `RateLimited`: `holder` then has a place in line and comes back for it."""
    limit = get_rate_limit(service, operation)
    answer = _query_buckets(
        _build_request(rate_limit_key, limit, now, wanted=1, place=f"{_key(rate_limit_key, limit)}:{holder}")
    )
    if not answer.granted:
        raise RateLimited(now + min(timedelta(seconds=answer.wait), LONGEST_WAIT))


def take_tokens(rate_limit_key: str, limit: RateLimit, wanted: int, now: datetime) -> int:
    """Take up to `wanted` tokens and say how many there were; nobody is put in line."""
    return _query_buckets(_build_request(rate_limit_key, limit, now, wanted=wanted)).granted


def record_throttling(rate_limit_key: str, error: AwsError, now: datetime) -> None:
    """AWS has throttled a call: everybody who shares its bucket waits, twice as long each time."""
    if isinstance(error, Throttled):
        _query_buckets(
            _build_request(
                rate_limit_key, get_rate_limit(error.service, error.operation), now, throttled=True
            )
        )


def reset_buckets() -> None:
    """Start with full buckets and ask Valkey again; in this process only."""
    _buckets.own.forget()
    _buckets.alone_until = 0.0


def _key(rate_limit_key: str, limit: RateLimit) -> str:
    return f"quota:{rate_limit_key}:{limit.name}"


def _build_request(
    rate_limit_key: str,
    limit: RateLimit,
    now: datetime,
    *,
    wanted: int = 0,
    place: str = "",
    throttled: bool = False,
) -> TokenRequest:
    share: float = settings.AWS_QUOTA_SHARE
    # A bucket that could not hold one token would never give one.
    burst = max(limit.burst * share, 1.0)
    return TokenRequest(
        _key(rate_limit_key, limit),
        burst,
        limit.per_second * share,
        now.timestamp(),
        wanted,
        place,
        throttled,
    )


@dataclass
class _Buckets:
    """Where this process keeps count."""

    own: LocalBuckets = field(default_factory=LocalBuckets)
    clients: dict[str, redis.Redis] = field(default_factory=dict)
    scripts: dict[redis.Redis, Any] = field(default_factory=dict)
    alone_until: float = 0.0


_buckets = _Buckets()


def _query_buckets(question: TokenRequest) -> TokenGrant:
    """Ask the buckets that all workers share; without Valkey those of this process, for some seconds."""
    client = _get_client()
    if client is None or time.monotonic() < _buckets.alone_until:
        return _buckets.own.ask(question)
    keys, values = build_script_arguments(question)
    try:
        granted, wait = cast("list[str]", _register_script(client)(keys, values))
    except redis.RedisError as error:
        _buckets.alone_until = time.monotonic() + LOCAL_FALLBACK_SECONDS
        logger.warning("Valkey does not answer, this process counts its calls to AWS alone: %s", error)
        return _buckets.own.ask(question)
    return TokenGrant(int(granted), float(wait))


def _register_script(client: redis.Redis) -> Any:
    """Return the script as its hash names it; Valkey is sent the text only where it does not know it."""
    if client not in _buckets.scripts:
        _buckets.scripts[client] = client.register_script(TOKEN_SCRIPT)
    return _buckets.scripts[client]


def _get_client() -> redis.Redis | None:
    """Return the connection to the cache's Valkey; None where the cache is another one, as in tests."""
    cache: Any = settings.CACHES["default"]
    if not cache["BACKEND"].endswith("RedisCache"):
        return None
    address = cache["LOCATION"]
    if address not in _buckets.clients:
        _buckets.clients[address] = redis.Redis.from_url(
            address, socket_timeout=VALKEY_TIMEOUT_SECONDS, socket_connect_timeout=VALKEY_TIMEOUT_SECONDS
        )
    return _buckets.clients[address]
