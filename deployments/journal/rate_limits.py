"""Rate limits of AWS APIs: learning token buckets shared by all workers through Valkey."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import redis
from django.conf import settings

from aws.errors import AwsError, Throttled
from deployments.journal.engine_signals import RateLimited
from deployments.journal.token_buckets import (
    GROWTH_SECONDS,
    STATE_FIELDS,
    TOKEN_SCRIPT,
    BucketState,
    CallReport,
    LocalBuckets,
    TokenGrant,
    TokenRequest,
    build_script_arguments,
)
from guards.metrics import AWS_RATES

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
# Services whose other calls have no documented quota; they only pause after AWS throttled one.
_UNLIMITED_SERVICES = (
    "application-autoscaling",
    "cloudformation",
    "cloudwatch",
    "ec2",
    "ecs",
    "elbv2",
    "iam",
    "logs",
    "s3",
)


def get_rate_limit(service: str, operation: str) -> RateLimit:
    """Return the rate limit of a call; an unlimited one, with backoff only, if AWS documents none."""
    limit = _LIMITS.get(operation) if service == "ecs" else None
    return limit or _get_unlimited(service)


def _get_unlimited(service: str) -> RateLimit:
    return RateLimit(f"{service} calls", 0, 0)


def take_token(
    rate_limit_key: str, service: str, operation: str, *, holder: str, now: datetime, owner: str = ""
) -> None:
    """Take one token, or raise `RateLimited` with a place in the queue for `holder`.

    `owner` is the person or the cause behind the call. One without a call in the last seconds may overtake
    the queue, so that a batch does not delay the deployment of somebody else.
    """
    limit = get_rate_limit(service, operation)
    request = _build_request(rate_limit_key, limit, now, count=1)
    grant = _query_buckets(
        replace(request, reservation=f"{request.key}:{holder}", owner=owner), limit, rate_limit_key
    )
    if not grant.granted:
        raise RateLimited(now + min(timedelta(seconds=grant.wait), LONGEST_WAIT))


def take_tokens(rate_limit_key: str, limit: RateLimit, count: int, now: datetime, *, holder: str = "") -> int:
    """Take up to `count` tokens that nobody queues for, and return how many were granted.

    Without any, a `holder` queues for one, so that others who always queue do not leave it without.
    """
    request = _build_request(rate_limit_key, limit, now, count=count)
    granted = _query_buckets(request, limit, rate_limit_key).granted
    if granted or not holder:
        return granted
    queued = replace(request, count=1, reservation=f"{request.key}:{holder}")
    return _query_buckets(queued, limit, rate_limit_key).granted


def record_success(rate_limit_key: str, service: str, operation: str, now: datetime) -> None:
    """Record a call that AWS answered: its bucket grows, once a second at most."""
    limit = get_rate_limit(service, operation)
    key, seconds = _get_key(rate_limit_key, limit), now.timestamp()
    if limit.per_second and abs(seconds - _buckets.succeeded_at.get(key, 0.0)) >= GROWTH_SECONDS:
        _buckets.succeeded_at[key] = seconds
        request = _build_request(rate_limit_key, limit, now, report=CallReport.SUCCEEDED)
        _query_buckets(request, limit, rate_limit_key)


def record_throttling(rate_limit_key: str, error: AwsError, now: datetime) -> None:
    """Record a throttled call: its bucket shrinks, and all its callers wait, twice as long each time."""
    if isinstance(error, Throttled):
        limit = get_rate_limit(error.service, error.operation)
        request = _build_request(rate_limit_key, limit, now, report=CallReport.THROTTLED)
        _query_buckets(request, limit, rate_limit_key)


@dataclass(frozen=True)
class RateLimitWait:
    """Wait for a token of a rate limit, or for the end of a pause after AWS throttled a call.

    `per_second` is the learned rate, `quota` the greatest one; both are 0 for an unlimited bucket.
    """

    limit: str
    until: datetime
    is_throttled: bool
    per_second: float
    quota: float


def find_rate_limit_wait(rate_limit_key: str, *, holder: str, now: datetime) -> RateLimitWait | None:
    """Return what the calls of `holder` wait for; a place in a queue comes before a pause of all calls."""
    limits = [*_OPERATIONS, *map(_get_unlimited, _UNLIMITED_SERVICES)]
    states = _read_states([_get_key(rate_limit_key, limit) for limit in limits], holder)
    tickets: list[RateLimitWait] = []
    pauses: list[RateLimitWait] = []
    for limit, (state, ticket) in zip(limits, states, strict=True):
        quota = limit.per_second * settings.AWS_QUOTA_SHARE
        is_queued = quota > 0 and ticket is not None and ticket <= state.issued
        ready = state.estimate_ready(ticket or 0.0, quota) if is_queued else 0.0
        for waits, moment in ((tickets, ready), (pauses, state.rest_until)):
            if moment > now.timestamp():
                until = datetime.fromtimestamp(moment, UTC)
                waits.append(RateLimitWait(limit.name, until, waits is pauses, quota * state.level, quota))
    return next(iter(tickets + pauses), None)


def _read_states(keys: Sequence[str], holder: str) -> list[tuple[BucketState, float | None]]:
    """Return for each bucket its state, and the ticket of `holder`; new states if Valkey does not answer."""
    client = _get_client()
    if client is None or time.monotonic() < _buckets.local_until:
        return [_buckets.own.get_state(key, f"{key}:{holder}") for key in keys]
    try:
        with client.pipeline(transaction=False) as batch:
            for key in keys:
                batch.hmget(key, list(STATE_FIELDS))
                batch.get(f"{key}:{holder}")
            values = batch.execute()
    except redis.RedisError:
        return [(BucketState(), None)] * len(keys)
    return [
        (_parse_state(state), None if ticket is None else float(ticket))
        for state, ticket in zip(values[::2], values[1::2], strict=True)
    ]


def _parse_state(values: Sequence[bytes | None]) -> BucketState:
    known = {
        name: float(value) for name, value in zip(STATE_FIELDS, values, strict=True) if value is not None
    }
    return BucketState(**cast("dict[str, Any]", known))


def reset_buckets() -> None:
    """Reset this process's buckets and use Valkey again."""
    _buckets.own.reset()
    _buckets.succeeded_at.clear()
    _buckets.local_until = 0.0


def _get_key(rate_limit_key: str, limit: RateLimit) -> str:
    return f"quota:{rate_limit_key}:{limit.name}"


def _build_request(
    rate_limit_key: str,
    limit: RateLimit,
    now: datetime,
    *,
    count: int = 0,
    report: CallReport = CallReport.NONE,
) -> TokenRequest:
    share: float = settings.AWS_QUOTA_SHARE
    return TokenRequest(
        _get_key(rate_limit_key, limit),
        limit.burst * share,
        limit.per_second * share,
        now.timestamp(),
        count,
        report=report,
    )


@dataclass
class _Buckets:
    """Buckets and Valkey connections of this process."""

    own: LocalBuckets = field(default_factory=LocalBuckets)
    clients: dict[str, redis.Redis] = field(default_factory=dict)
    scripts: dict[redis.Redis, Any] = field(default_factory=dict)
    # When this process last reported a success of each bucket.
    succeeded_at: dict[str, float] = field(default_factory=dict)
    local_until: float = 0.0


_buckets = _Buckets()


def _query_buckets(request: TokenRequest, limit: RateLimit, rate_limit_key: str) -> TokenGrant:
    """Query a bucket, and publish its rate for Prometheus."""
    grant = _draw(request)
    if limit.per_second:
        AWS_RATES.labels(rate_limit_key, limit.name).set(request.per_second * grant.level)
    return grant


def _draw(request: TokenRequest) -> TokenGrant:
    """Query the shared buckets; this process's own for some seconds if Valkey fails."""
    client = _get_client()
    if client is None or time.monotonic() < _buckets.local_until:
        return _buckets.own.draw(request)
    keys, values = build_script_arguments(request)
    try:
        granted, wait, level = cast("list[str]", _register_script(client)(keys, values))
    except redis.RedisError as error:
        _buckets.local_until = time.monotonic() + LOCAL_FALLBACK_SECONDS
        logger.warning("Valkey does not answer, this process counts its calls to AWS alone: %s", error)
        return _buckets.own.draw(request)
    return TokenGrant(int(granted), float(wait), float(level))


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
