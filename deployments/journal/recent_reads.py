"""Recent reads of ECS services and scalable targets, shared by processes through the cache.

They are kept in the shared cache for some seconds. A cache that is away, or holds nonsense, costs a call and
nothing else. Who reads them says since when they must have begun: no answer is taken from before a write.
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
# What may be read outside a deployment that long ago is shown as if it were read now.
MAX_AGE: Final[Mapping[str, timedelta]] = {SERVICES: timedelta(seconds=20), TARGETS: timedelta(minutes=2)}
PAUSE_SECONDS: Final = 5.0
_FAILURES: Final = (redis.RedisError, OSError)
# What unpickling bytes raises that Django did not write.
_UNREADABLE: Final = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError),
    *(AttributeError, ImportError, IndexError, KeyError),
)


@dataclass(frozen=True)
class RecentRead:
    """One answer and the moment its call began; None where AWS has no such thing."""

    begun: datetime
    answer: dict[str, Any] | None


class _Availability:
    """When a cache that did not answer is asked again; in this process."""

    paused_until = 0.0


def publish_reads(
    kind: str, group: str, answers: Mapping[str, Mapping[str, Any] | None], *, begun: datetime
) -> None:
    """Keep answers by name for the processes that read the same batch (connector, region, cluster)."""
    if not answers or _is_paused():
        return
    rows = {
        _key(kind, group, name): json.dumps([begun.timestamp(), answer], default=str)
        for name, answer in answers.items()
    }
    try:
        cache.set_many(rows, timeout=MAX_AGE[kind].total_seconds())
    except _FAILURES as error:
        _pause(error)


def publish_targets(
    connector: Connector,
    region: str,
    asked: Mapping[str, Any],
    answer: Mapping[str, Any],
    *,
    begun: datetime,
) -> None:
    """Keep an answer of DescribeScalableTargets by resource id; one of several pages is left out."""
    if answer.get("NextToken") or asked.get("NextToken"):
        return
    found = {one.get("ResourceId"): one for one in answer.get("ScalableTargets", ())}
    targets = {name: found.get(name) for name in asked.get("ResourceIds", ())}
    publish_reads(TARGETS, get_region_group(connector, region), targets, begun=begun)


def get_region_group(connector: Connector, region: str) -> str:
    """Return the group of what does not belong to one cluster."""
    return f"{build_cache_key(connector)}|{region}"


def get_recent_reads(
    kind: str, group: str, names: Iterable[str], *, since: datetime, now: datetime
) -> dict[str, RecentRead]:
    """Return the answers whose calls began after `since` and are not too old now, by name."""
    keys = {_key(kind, group, name): name for name in names}
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
    found = {keys[key]: _parse(row) for key, row in rows.items() if key in keys}
    oldest = max(since, now - MAX_AGE[kind])
    return {name: read for name, read in found.items() if read and oldest < read.begun <= now}


def _parse(row: object) -> RecentRead | None:
    """Return the row as a read; None where it is none."""
    try:
        seconds, answer = json.loads(row) if isinstance(row, str) else ("", None)
        begun = datetime.fromtimestamp(float(seconds), UTC)
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None
    return RecentRead(begun, answer) if answer is None or isinstance(answer, dict) else None


def _key(kind: str, group: str, name: str) -> str:
    digest = blake2b(f"{kind}|{group}|{name}".encode(errors="surrogatepass"), digest_size=20).hexdigest()
    return f"recent:{digest}"


def _is_paused() -> bool:
    return time.monotonic() < _Availability.paused_until


def _pause(error: Exception) -> None:
    _Availability.paused_until = time.monotonic() + PAUSE_SECONDS
    logger.warning("The cache does not answer, what others have read is read again: %s", error)
