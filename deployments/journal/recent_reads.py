"""Recent reads of ECS services and scalable targets, shared by processes through the cache.

They expire after seconds. A missing cache or invalid data only costs a call. Readers pass the minimum start
of a read, so no answer is older than a write.
"""

import json
import logging
import pickle
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import redis
from django.core.cache import cache

from connectors.models import Connector
from delegates.access.aws_access import build_cache_key

logger = logging.getLogger(__name__)

NEVER: Final = datetime.min.replace(tzinfo=UTC)

SERVICES: Final = "services"
TARGETS: Final = "scalable targets"
# Maximum age of a read outside a deployment that counts as current.
MAX_AGE: Final[Mapping[str, timedelta]] = {SERVICES: timedelta(seconds=20), TARGETS: timedelta(minutes=2)}
PAUSE_SECONDS: Final = 5.0
_FAILURES: Final = (redis.RedisError, OSError)
# Exceptions of unpickling bytes that Django did not write.
_UNREADABLE: Final = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError),
    *(AttributeError, ImportError, IndexError, KeyError),
)


@dataclass(frozen=True)
class RecentRead:
    """Answer and start time of a call; the answer is None if AWS has no such resource."""

    started_at: datetime
    answer: dict[str, Any] | None


class _Availability:
    """Time until which this process does not use a failing cache."""

    paused_until = 0.0


def publish_reads(
    kind: str, group: str, answers: Mapping[str, Mapping[str, Any] | None], *, started_at: datetime
) -> None:
    """Store answers by name for the processes that read the same batch (connector, region, cluster)."""
    if not answers or _is_paused():
        return
    rows = {
        _get_key(kind, group, name): json.dumps([started_at.timestamp(), answer], default=str)
        for name, answer in answers.items()
    }
    try:
        cache.set_many(rows, timeout=MAX_AGE[kind].total_seconds())
    except _FAILURES as error:
        _pause(error)


def publish_targets(
    connector: Connector,
    region: str,
    params: Mapping[str, Any],
    answer: Mapping[str, Any],
    *,
    started_at: datetime,
) -> None:
    """Store an answer of DescribeScalableTargets by resource id; answers with several pages are skipped."""
    if answer.get("NextToken") or params.get("NextToken"):
        return
    targets_by_id = {target.get("ResourceId"): target for target in answer.get("ScalableTargets", ())}
    targets = {name: targets_by_id.get(name) for name in params.get("ResourceIds", ())}
    publish_reads(TARGETS, get_region_group(connector, region), targets, started_at=started_at)


def get_region_group(connector: Connector, region: str) -> str:
    """Return the group of reads that belong to a region instead of a cluster."""
    return f"{build_cache_key(connector)}|{region}"


def get_recent_reads(
    kind: str, group: str, names: Iterable[str], *, since: datetime, now: datetime
) -> dict[str, RecentRead]:
    """Return by name the answers whose calls started after `since` and are recent enough."""
    keys = {_get_key(kind, group, name): name for name in names}
    if not keys or _is_paused():
        return {}
    try:
        rows = cache.get_many(list(keys))
    except _FAILURES as error:
        _pause(error)
        return {}
    except _UNREADABLE as error:
        logger.warning("The cache holds what is no recent read: %s", error)
        return {}
    reads = {keys[key]: _parse(row) for key, row in rows.items() if key in keys}
    oldest = max(since, now - MAX_AGE[kind])
    return {name: read for name, read in reads.items() if read and oldest < read.started_at <= now}


def _parse(row: object) -> RecentRead | None:
    """Return the row as a read; None if it is invalid."""
    try:
        seconds, answer = json.loads(row) if isinstance(row, str) else ("", None)
        started_at = datetime.fromtimestamp(float(seconds), UTC)
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None
    return RecentRead(started_at, answer) if answer is None or isinstance(answer, dict) else None


def _get_key(kind: str, group: str, name: str) -> str:
    digest = blake2b(f"{kind}|{group}|{name}".encode(errors="surrogatepass"), digest_size=20).hexdigest()
    return f"recent:{digest}"


def _is_paused() -> bool:
    return time.monotonic() < _Availability.paused_until


def _pause(error: Exception) -> None:
    _Availability.paused_until = time.monotonic() + PAUSE_SECONDS
    logger.warning("The cache does not answer, what others have read is read again: %s", error)
