"""State of the background work: the last sign of a worker, the queue of the broker, and why work waits."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from deployments.engine.dispatch import DISPATCHER
from deployments.models import Pulse
from web.work_delays import SENT_AT_HEADER, DelayCode, WorkDelay, describe_seconds

MAX_PULSE_AGE: Final = timedelta(seconds=15)
# A message that waits longer waits for a worker that is busy, or for none.
MAX_MESSAGE_WAIT: Final = timedelta(seconds=5)
CHECK_TIMEOUT_SECONDS: Final = 2.0


@dataclass(frozen=True)
class QueueState:
    """Number of messages that no worker has taken, and how long the oldest has waited."""

    depth: int
    oldest_wait: timedelta = timedelta(0)


def create_broker_client() -> "redis.Redis":
    """Return a client of the broker that does not wait for long."""
    return _create_client(settings.REDIS_URL)


def _create_client(url: str) -> "redis.Redis":
    return redis.Redis.from_url(
        url,
        socket_timeout=CHECK_TIMEOUT_SECONDS,
        socket_connect_timeout=CHECK_TIMEOUT_SECONDS,
        # Once, for a connection that the broker has closed meanwhile.
        retry=Retry(NoBackoff(), 1),
    )


# The client of this process, which keeps its connections.
_get_shared_client = lru_cache(maxsize=1)(_create_client)


def read_dispatcher_silence(now: datetime) -> timedelta | None:
    """Return the time since a worker ran the dispatcher, at least zero; None if none ever did."""
    last = Pulse.objects.filter(name=DISPATCHER).values_list("at", flat=True).first()
    return None if last is None else max(now - last, timedelta(0))


def read_queue_state(now: datetime) -> QueueState:
    """Return the state of the queue. Raises `redis.RedisError`."""
    name = settings.CELERY_TASK_DEFAULT_QUEUE
    with _get_shared_client(settings.REDIS_URL).pipeline(transaction=False) as batch:
        # Celery takes messages from the end of the list.
        batch.llen(name)
        batch.lindex(name, -1)
        depth, oldest = batch.execute()
    return QueueState(int(depth), _read_wait(oldest, now))


def _read_wait(message: bytes | None, now: datetime) -> timedelta:
    try:
        sent_at = float(json.loads(message or b"{}")["headers"][SENT_AT_HEADER])
    except (ValueError, KeyError, TypeError):
        # Sent by an older version.
        return timedelta(0)
    return timedelta(seconds=max(now.timestamp() - sent_at, 0))


def list_work_delays(now: datetime) -> list[WorkDelay]:
    """Return why the work of all executions and delegates waits."""
    try:
        queue = read_queue_state(now)
    except (redis.RedisError, OSError):
        text = "The broker does not respond: workers get no work until it does."
        return [WorkDelay(DelayCode.BROKER_UNAVAILABLE, text)]
    delays = []
    silence = read_dispatcher_silence(now)
    if silence is None or silence > MAX_PULSE_AGE:
        delays.append(_describe_silence(silence, queue))
    if queue.oldest_wait > MAX_MESSAGE_WAIT:
        wait = describe_seconds(queue.oldest_wait.total_seconds())
        name = settings.CELERY_TASK_DEFAULT_QUEUE
        messages = "1 message waits" if queue.depth == 1 else f"{queue.depth} messages wait"
        text = f"The workers are behind: {messages} in queue {name}, the oldest for {wait}."
        delays.append(WorkDelay(DelayCode.QUEUE_BACKLOG, text))
    return delays


def _describe_silence(silence: timedelta | None, queue: QueueState) -> WorkDelay:
    # Messages that nobody takes mean that beat runs and no worker does.
    code, name = (
        (DelayCode.WORKER_SILENT, "worker") if queue.depth else (DelayCode.DISPATCHER_SILENT, "dispatcher")
    )
    if silence is None:
        return WorkDelay(code, f"No {name} has ever answered.")
    return WorkDelay(code, f"No {name} has answered for {describe_seconds(silence.total_seconds())}.")
