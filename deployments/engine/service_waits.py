"""Waits for ECS services: observed state, batch key and the interval between checks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Protocol
from zlib import crc32

from django.db.models import Case, Value, When

from connectors.account_claims import build_account_key
from connectors.models import Connector
from delegates.access.aws_access import build_cache_key
from steps.actions.context import ServiceObservation

# A full pass now and then finds changes that the hash does not cover.
FULL_PASS_INTERVAL = timedelta(minutes=15)


@dataclass(frozen=True)
class ServiceWait:
    """Wait of an execution for an ECS service, with the state observed at the last check.

    With an empty `observed_state` the next check reconciles the execution; `recheck_at` always does.
    """

    waits_for_service: str
    waiting_since: datetime
    observed_state: str
    recheck_at: datetime
    rate_limit_key: str
    batch_key: str


class ClusterLocation(Protocol):
    """Cluster with the connector that reaches it."""

    region: str
    cluster: str
    connector: Connector


class CallOrigin(Protocol):
    """Account and region of calls; the account may be unknown."""

    account: str
    region: str
    connector: Connector


def get_rate_limit_key(location: CallOrigin, region: str = "") -> str:
    """Return the key of shared rate limits: account and region, or connector while the account is unknown.

    An account that Slipway cannot verify is shared as `connectors.account_claims` says, so that no claim
    slows others. `region` replaces the region of the location.
    """
    connector, account = location.connector, location.account
    account_key = build_account_key(connector, account) if account else build_cache_key(connector)
    return f"{account_key}/{region or location.region}"


_DELEGATE_PREFIX = "delegate:"


def is_through_delegate(batch_key: str) -> bool:
    """Return whether the executions of a batch read through a delegate, each with a call of its own."""
    return batch_key.startswith(_DELEGATE_PREFIX)


def get_batch_key(location: ClusterLocation) -> str:
    """Return the key of executions that share calls: one connector, region and cluster."""
    return "|".join((build_cache_key(location.connector), location.region, location.cluster))[:512]


def hash_observed_state(service: Mapping[str, Any] | None) -> str:
    """Return a hash of the state of an ECS service; it changes with anything that a check evaluates."""
    if service is None:
        return "none"
    events = service.get("events") or [{}]
    description = {**service, "events": events[0].get("id", "")}
    return blake2b(json.dumps(description, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()


def get_observed_state(observation: ServiceObservation | None) -> str:
    """Return the observed state of an execution that waits for a change."""
    if observation is None:
        return NOT_OBSERVED
    return hash_observed_state(observation.service.raw if observation.service else None)


def build_wait_columns(service_wait: ServiceWait | None, *, unless_woken: datetime) -> dict[str, Any]:
    """Return the columns of a wait; an execution woken meanwhile does not wait."""
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
# While events arrive, checks only find what no event announced. More often, only the event queue is looked
# at, so that polling begins soon after it stops.
COVERED_INTERVAL = timedelta(seconds=30)
COVERED_USUAL_WAIT = timedelta(seconds=90)
COVERED_LATE_WAIT = timedelta(minutes=5)
# The first event of a deployment comes within seconds.
FIRST_EVENT_WAIT = timedelta(seconds=12)
# Checks that a decisive event made due are never skipped.
WOKEN_FOR = timedelta(minutes=1)
# Observed state before the first check.
NOT_OBSERVED = "not observed"


@dataclass(frozen=True)
class EventTimes:
    """Events of AWS about the service of a wait: time of the last one, and when one made the check due."""

    event_at: datetime | None = None
    woken_at: datetime | None = None

    def is_covered(self, since: datetime) -> bool:
        """Return whether an event has come since the wait began, so that the next one will."""
        return self.event_at is not None and self.event_at >= since

    def covers(self, check_at: datetime, since: datetime) -> bool:
        """Return whether the events of a queue that is receiving replace the check at `check_at`."""
        if self.woken_at is not None and check_at - self.woken_at < WOKEN_FOR:
            return False
        age = check_at - since
        if not self.is_covered(since):
            return age < FIRST_EVENT_WAIT
        interval = COVERED_USUAL_WAIT if age < USUAL else COVERED_LATE_WAIT
        return age < interval or age % interval >= COVERED_INTERVAL

    def is_recently_woken(self, now: datetime) -> bool:
        """Return whether an event may be newer than what reads show yet."""
        return self.woken_at is not None and now - self.woken_at < EARLY


NO_EVENTS = EventTimes()


def get_check_interval(age: timedelta, *, is_covered: bool = False) -> timedelta:
    """Return the time between two checks after a wait of this length."""
    if is_covered:
        return COVERED_INTERVAL
    if age < EARLY:
        return EARLY_WAIT
    return USUAL_WAIT if age < USUAL else LATE_WAIT


def get_next_check(now: datetime, since: datetime, group: str, events: EventTimes = NO_EVENTS) -> datetime:
    """Return the next check of a wait that began at `since`.

    Checks lie on a grid, so that all waits of one batch share their calls. The grids of different batches are
    shifted to spread the calls. The first check comes at least two seconds after the start.
    """
    interval = (
        EARLY_WAIT
        if events.is_recently_woken(now)
        else get_check_interval(now - since, is_covered=events.is_covered(since))
    )
    seconds = interval.total_seconds()
    shift = crc32(group.encode()) % int(LATE_WAIT.total_seconds())
    # Where the grid gets wider, the next check could follow this one immediately.
    earliest = now + EARLY_WAIT if interval not in (EARLY_WAIT, LATE_WAIT) else now
    after = max(earliest, since + EARLY_WAIT).timestamp()
    grid_index = (after - shift) // seconds
    return datetime.fromtimestamp((grid_index + 1) * seconds + shift, UTC)
