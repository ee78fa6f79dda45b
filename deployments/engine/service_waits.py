"""Waits for ECS services: observed state, batch key and the interval between checks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Protocol
from zlib import crc32

from django.db.models import Case, Value, When

from connectors.models import Connector
from delegates.access.aws_access import build_cache_key

# A full pass now and then finds changes that the hash does not cover.
FULL_PASS_INTERVAL = timedelta(minutes=15)


@dataclass(frozen=True)
class ServiceWait:
    """Wait of an execution for an ECS service, with the state observed at the last check.

    An execution with an empty `observed_state` is reconciled at its next check, and each at `recheck_at`.
    """

    waits_for_service: str
    waiting_since: datetime
    observed_state: str
    recheck_at: datetime
    rate_limit_key: str
    batch_key: str


class ClusterLocation(Protocol):
    """A cluster as one connector reaches it."""

    region: str
    cluster: str
    connector: Connector


class CallOrigin(Protocol):
    """Who makes calls in a region, in an account that may not be known yet."""

    account: str
    region: str
    connector: Connector


def get_rate_limit_key(place: CallOrigin, region: str = "") -> str:
    """Whose calls are counted together: an account and region; a connector while its account is unknown.

    `region` is where the calls go that do not go to the region of the place.
    """
    return f"{place.account or build_cache_key(place.connector)}/{region or place.region}"


def get_batch_key(place: ClusterLocation) -> str:
    """Return the key of executions that share calls: one connector, region and cluster."""
    return "|".join((build_cache_key(place.connector), place.region, place.cluster))[:512]


def hash_observed_state(service: Mapping[str, Any] | None) -> str:
    """Return a hash of the state of an ECS service; it changes with anything that a check evaluates."""
    if service is None:
        return "none"
    events = service.get("events") or [{}]
    description = {**service, "events": events[0].get("id", "")}
    return blake2b(json.dumps(description, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def build_wait_columns(service_wait: ServiceWait | None, *, unless_woken: datetime) -> dict[str, Any]:
    """Return the columns of a wait. An execution woken meanwhile does not wait: its next pass is due."""
    if service_wait is None:
        return {
            "waits_for_service": "",
            "waiting_since": None,
            "observed_state": "",
            "recheck_at": None,
            "rate_limit_key": "",
        }
    waits_for_service = Case(
        When(due_at__lt=unless_woken, then=Value("")), default=Value(service_wait.waits_for_service)
    )
    return {
        "waits_for_service": waits_for_service,
        "waiting_since": service_wait.waiting_since,
        "observed_state": service_wait.observed_state,
        "recheck_at": service_wait.recheck_at,
        "rate_limit_key": service_wait.rate_limit_key,
        "batch_key": service_wait.batch_key,
    }


EARLY, EARLY_WAIT = timedelta(seconds=6), timedelta(seconds=2)
USUAL, USUAL_WAIT = timedelta(minutes=10), timedelta(seconds=5)
LATE_WAIT = timedelta(seconds=10)


def get_check_interval(age: timedelta) -> timedelta:
    """Return the time between two checks after a wait of this length."""
    if age < EARLY:
        return EARLY_WAIT
    return USUAL_WAIT if age < USUAL else LATE_WAIT


def get_next_check(now: datetime, since: datetime, group: str) -> datetime:
    """Return the next check of a wait that began at `since`.

    Turns lie on a grid, so that all who wait in one group have theirs together and one call serves ten of
    them. The grids of different groups are shifted, so that they do not all ask at once. The first turn
    leaves AWS two seconds: nothing is done sooner.
    """
    apart = get_check_interval(now - since)
    wait = apart.total_seconds()
    shift = crc32(group.encode()) % int(LATE_WAIT.total_seconds())
    # Where the grid gets wider, the next check may lie right behind this one.
    soonest = now + EARLY_WAIT if apart == USUAL_WAIT else now
    after = max(soonest, since + EARLY_WAIT).timestamp()
    passed = (after - shift) // wait
    return datetime.fromtimestamp((passed + 1) * wait + shift, UTC)
