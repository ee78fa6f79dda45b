"""How many calls AWS may be asked for: one bucket of tokens per account, region and bucket of AWS (rule 5).

All workers share the buckets through Valkey; a process that cannot reach it counts alone for a while. Time is
the database's, so that all processes agree on it.
"""

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import redis
from django.conf import settings

from aws.errors import AwsError, Throttled
from deployments.engine.tokens import SCRIPT, Answer, OwnBuckets, Question, arguments
from deployments.engine.turns import NoToken

logger = logging.getLogger(__name__)

LONGEST_PARKED = timedelta(seconds=30)
VALKEY_ANSWERS_WITHIN = 0.5
ALONE_SECONDS = 5.0


@dataclass(frozen=True)
class Limit:
    """One of AWS's buckets: how many calls at once, how many each second (ECS, request throttling)."""

    name: str
    burst: float
    per_second: float


SERVICE_READS = Limit("service reads", 100, 20)
_OPERATIONS = {
    SERVICE_READS: ("DescribeServices", "ListServices"),
    Limit("service changes", 50, 5): ("CreateService", "UpdateService", "DeleteService"),
    Limit("definition reads", 50, 20): ("DescribeTaskDefinition", "ListTaskDefinitions"),
    Limit("definition changes", 20, 1): ("RegisterTaskDefinition", "DeregisterTaskDefinition"),
    Limit("task reads", 100, 20): ("DescribeTasks", "ListTasks", "DescribeContainerInstances"),
    Limit("task changes", 100, 40): ("RunTask", "StopTask", "ExecuteCommand"),
    Limit("deployment reads", 50, 20): ("ListServiceDeployments", "DescribeServiceDeployments"),
    Limit("revision reads", 50, 20): ("DescribeServiceRevisions",),
    Limit("tags", 20, 10): ("TagResource", "UntagResource", "ListTagsForResource"),
}
_LIMITS = {operation: limit for limit, operations in _OPERATIONS.items() for operation in operations}


def limit_of(service: str, operation: str) -> Limit:
    """The bucket that a call draws from. Where AWS tells no limit, calls only rest when throttled."""
    found = _LIMITS.get(operation) if service == "ecs" else None
    return found or Limit(f"{service} calls", 0, 0)


def go_or_park(quota: str, service: str, operation: str, *, holder: str, now: datetime) -> None:
    """Take one token, or raise `NoToken`: `holder` then has a place in line and comes back for it."""
    limit = limit_of(service, operation)
    answer = _ask(_question(quota, limit, now, wanted=1, place=f"{_key(quota, limit)}:{holder}"))
    if not answer.granted:
        raise NoToken(now + min(timedelta(seconds=answer.wait), LONGEST_PARKED))


def grant(quota: str, limit: Limit, wanted: int, now: datetime) -> int:
    """Take up to `wanted` tokens and say how many there were; nobody is put in line."""
    return _ask(_question(quota, limit, now, wanted=wanted)).granted


def rest(quota: str, error: AwsError, now: datetime) -> None:
    """AWS has throttled a call: everybody who shares its bucket waits, twice as long each time."""
    if isinstance(error, Throttled):
        _ask(_question(quota, limit_of(error.service, error.operation), now, throttled=True))


def forget() -> None:
    """Start with full buckets and ask Valkey again; in this process only."""
    _buckets.own.forget()
    _buckets.alone_until = 0.0


def _key(quota: str, limit: Limit) -> str:
    return f"quota:{quota}:{limit.name}"


def _question(
    quota: str, limit: Limit, now: datetime, *, wanted: int = 0, place: str = "", throttled: bool = False
) -> Question:
    share: float = settings.AWS_QUOTA_SHARE
    # A bucket that could not hold one token would never give one.
    burst = max(limit.burst * share, 1.0)
    return Question(
        _key(quota, limit), burst, limit.per_second * share, now.timestamp(), wanted, place, throttled
    )


@dataclass
class _Buckets:
    """Where this process keeps count."""

    own: OwnBuckets = field(default_factory=OwnBuckets)
    clients: dict[str, redis.Redis] = field(default_factory=dict)
    scripts: dict[redis.Redis, Any] = field(default_factory=dict)
    alone_until: float = 0.0


_buckets = _Buckets()


def _ask(question: Question) -> Answer:
    """Ask the buckets that all workers share; without Valkey those of this process, for some seconds."""
    client = _client()
    if client is None or time.monotonic() < _buckets.alone_until:
        return _buckets.own.ask(question)
    keys, values = arguments(question)
    try:
        granted, wait = cast("list[str]", _script_of(client)(keys, values))
    except redis.RedisError as error:
        _buckets.alone_until = time.monotonic() + ALONE_SECONDS
        logger.warning("Valkey does not answer, this process counts its calls to AWS alone: %s", error)
        return _buckets.own.ask(question)
    return Answer(int(granted), float(wait))


def _script_of(client: redis.Redis) -> Any:
    """The script as its hash names it; Valkey is sent the text only where it does not know it."""
    if client not in _buckets.scripts:
        _buckets.scripts[client] = client.register_script(SCRIPT)
    return _buckets.scripts[client]


def _client() -> redis.Redis | None:
    """The connection to the cache's Valkey; None where the cache is another one, as in tests."""
    cache: Any = settings.CACHES["default"]
    if not cache["BACKEND"].endswith("RedisCache"):
        return None
    address = cache["LOCATION"]
    if address not in _buckets.clients:
        _buckets.clients[address] = redis.Redis.from_url(
            address, socket_timeout=VALKEY_ANSWERS_WITHIN, socket_connect_timeout=VALKEY_ANSWERS_WITHIN
        )
    return _buckets.clients[address]
