"""Waits for ECS services: observed state, batch key and the interval between checks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Protocol
from zlib import crc32

from django.db.models import Case, Value, When

from aws.apis.ecs_types import EcsService
from connectors.account_claims import build_account_key
from connectors.models import Connector
from delegates.access.aws_access import build_cache_key
from delegates.event_queues.coverage import MOST_EVENT_DELAY
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
# While events arrive, checks only find what no event announced. At the times of the others, only the event
# queue is looked at, so that polling begins as soon as it stops.
COVERED_USUAL_WAIT = timedelta(seconds=90)
COVERED_LATE_WAIT = timedelta(minutes=5)
# Checks that events cannot replace: after one that may end the wait, and of waits for more than a change.
COVERED_CHECK_WAIT = timedelta(seconds=30)
# A queue without any event for so long may have lost its rule, so that younger waits are checked at this
# interval: with a look each five seconds, at most 29 seconds after the last event.
QUIET_WAIT = timedelta(seconds=24)
# The first event of a deployment comes within seconds.
FIRST_EVENT_WAIT = timedelta(seconds=12)
# So long after a decisive event, checks follow that no other event replaces.
WOKEN_FOR = timedelta(minutes=1)
# Observed state before the first check.
NOT_OBSERVED = "not observed"


@dataclass(frozen=True)
class _Look:
    """Look at a wait, with the time since the look before."""

    after: datetime
    until: datetime

    def passes(self, interval: timedelta, start: datetime) -> bool:
        """Return whether a multiple of an interval after the start lies within the look."""
        return (self.until - start) // interval > max((self.after - start) // interval, 0)


@dataclass(frozen=True)
class EventTimes:
    """Events of AWS about the service of a wait: time of the last one, and when one made the check due."""

    event_at: datetime | None = None
    woken_at: datetime | None = None

    def is_covered(self, since: datetime) -> bool:
        """Return whether an event has come since the wait began, so that the next one will."""
        return self.event_at is not None and self.event_at >= since

    def covers(self, check_at: datetime, now: datetime, *, since: datetime, queue_event_at: datetime) -> bool:
        """Return whether the events of a queue that is receiving replace the check due at `check_at`.

        It is that of a wait for a change only. `queue_event_at` is the time of the last event of the queue,
        about whatever service.
        """
        interval = get_check_interval(check_at - since)
        look = _Look(check_at - interval, check_at + (now - check_at) // interval * interval)
        age = look.until - since
        if self.is_recently_woken(check_at):
            return False
        if self.woken_at is not None and check_at - self.woken_at < WOKEN_FOR:
            return not look.passes(COVERED_CHECK_WAIT, self.woken_at)
        if not self.is_covered(since):
            return age < FIRST_EVENT_WAIT
        if age >= USUAL:
            return not look.passes(COVERED_LATE_WAIT, since)
        return not (look.passes(COVERED_USUAL_WAIT, since) or look.passes(QUIET_WAIT, queue_event_at))

    def find_unannounced_change(
        self, service: EcsService | None, now: datetime, *, since: datetime | None
    ) -> datetime | None:
        """Return when AWS changed a service, awaited since `since`, without an event; otherwise None.

        Task counts may be those of an event before the last read, so only times of AWS count.
        """
        if service is None or since is None or self.event_at is None or not self.is_covered(since):
            return None
        times = [deployment.updated_at for deployment in service.deployments if deployment.updated_at]
        changed_at = max(times, default=self.event_at)
        is_missed = changed_at - self.event_at > MOST_EVENT_DELAY and now - changed_at > MOST_EVENT_DELAY
        return changed_at if is_missed else None

    def is_recently_woken(self, now: datetime) -> bool:
        """Return whether an event may be newer than what reads show yet."""
        return self.woken_at is not None and now - self.woken_at < EARLY


NO_EVENTS = EventTimes()


def get_check_interval(age: timedelta) -> timedelta:
    """Return the time between two checks after a wait of this length."""
    if age < EARLY:
        return EARLY_WAIT
    return USUAL_WAIT if age < USUAL else LATE_WAIT


def get_next_check(
    now: datetime, since: datetime, group: str, events: EventTimes = NO_EVENTS, *, for_change: bool = True
) -> datetime:
    """Return the next check of a wait that began at `since`, `for_change` of its service or for more.

    Checks lie on a grid, so that all waits of one batch share their calls. The grids of different batches are
    shifted to spread the calls. The first check comes at least two seconds after the start.
    """
    if events.is_recently_woken(now):
        interval = EARLY_WAIT
    elif events.is_covered(since) and not for_change:
        interval = COVERED_CHECK_WAIT
    else:
        interval = get_check_interval(now - since)
    seconds = interval.total_seconds()
    shift = crc32(group.encode()) % int(LATE_WAIT.total_seconds())
    # Where the grid gets wider, the next check could follow this one immediately.
    earliest = now + EARLY_WAIT if interval not in (EARLY_WAIT, LATE_WAIT) else now
    after = max(earliest, since + EARLY_WAIT).timestamp()
    grid_index = (after - shift) // seconds
    return datetime.fromtimestamp((grid_index + 1) * seconds + shift, UTC)
