"""Pauses with growing backoff that clusters with a shared failure take together; one of them retries.

Clusters of the same account and region, connector or delegate fail in the same way, so only one of them
tries again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Q

from aws.errors import AwsError, NotSent, Throttled, Unanswered, Unauthenticated, Undelivered
from delegates.access.aws_access import build_cache_key
from deployments.engine.service_waits import get_rate_limit_key
from inventory.models.instances import SyncedCluster, SyncPause
from inventory.sync import column_values

SYNC_OWNER: Final = "sync"
FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(hours=1)
# How long one cluster may retry for all before another one does.
TRIAL_DURATION: Final = timedelta(seconds=60)
TRIAL_POLL_INTERVAL: Final = timedelta(seconds=10)
_KEY_LENGTH: Final = 255
_CONNECTION_ERRORS: Final = (Unauthenticated, NotSent, Unanswered, Undelivered)


@dataclass(frozen=True)
class ScanFailure:
    """A failure of a scan, with the next step for the reader."""

    text: str
    code: str = ""
    next_step: str = ""


def list_pause_keys(cluster: SyncedCluster, owner: str = SYNC_OWNER) -> tuple[str, str]:
    """Return the pause keys of a cluster: its account and region, and its connector and region.

    `owner` is the kind of scan: a denied drift scan does not pause sync.
    """
    prefix = "" if owner == SYNC_OWNER else f"{owner}:"
    return (
        f"{prefix}{get_rate_limit_key(cluster)}",
        f"{prefix}{build_cache_key(cluster.connector)}/{cluster.region}",
    )


def choose_pause_key(cluster: SyncedCluster, error: AwsError, owner: str = SYNC_OWNER) -> str:
    """Return the key that a failure pauses: the account's, the connector's, or empty for the cluster
    alone.
    """
    account, connector = list_pause_keys(cluster, owner)
    if isinstance(error, Throttled):
        return account
    return connector if isinstance(error, _CONNECTION_ERRORS) else ""


def compute_backoff(failures: int) -> timedelta:
    """Return the backoff after so many earlier failures."""
    return min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE)


def record_pause(key: str, failure: ScanFailure, now: datetime) -> datetime:
    """Pause all clusters with this key, and return the end of the pause; a repeated failure counts once."""
    columns = {
        "failed_at": now,
        "failure": column_values.clean_text(failure.text),
        "failure_code": column_values.clean_text(failure.code, 128),
        "failure_step": column_values.clean_text(failure.next_step),
    }
    pause, is_created = SyncPause.objects.get_or_create(
        key=key[:_KEY_LENGTH], defaults={"paused_until": now + compute_backoff(0), "failures": 1, **columns}
    )
    if is_created:
        return pause.paused_until
    retry_at = now + compute_backoff(pause.failures)
    expired = SyncPause.objects.filter(pk=pause.pk, paused_until__lte=now)
    is_extended = expired.update(
        paused_until=retry_at, failures=F("failures") + 1, trial_expires_at=None, **columns
    )
    return retry_at if is_extended else pause.paused_until


def claim_trial(
    cluster: SyncedCluster, now: datetime, owner: str = SYNC_OWNER, *, is_under_way: bool = False
) -> datetime | None:
    """Return the end of a cluster's pause, or None if it may run, perhaps as the trial for all.

    A scan in progress keeps its trial for all its calls.
    """
    pauses = list(SyncPause.objects.filter(key__in=_list_stored_keys(cluster, owner)).order_by("pk"))
    if running := [pause.paused_until for pause in pauses if pause.paused_until > now]:
        return max(running)
    available = Q() if is_under_way else Q(trial_expires_at__isnull=True) | Q(trial_expires_at__lte=now)
    for pause in pauses:
        if not SyncPause.objects.filter(available, pk=pause.pk).update(trial_expires_at=now + TRIAL_DURATION):
            return now + TRIAL_POLL_INTERVAL
    return None


def end_pause(cluster: SyncedCluster, owner: str) -> bool:
    """Delete the pauses that this cluster shares, and return whether there were any."""
    return bool(SyncPause.objects.filter(key__in=_list_stored_keys(cluster, owner)).delete()[0])


def list_pause_sharers(cluster: SyncedCluster) -> list[int]:
    """Return the keys of the clusters that share a pause with this one, in one query."""
    same = Q(connector=cluster.connector_id)
    if cluster.account:
        same |= Q(account=cluster.account)
    rows = SyncedCluster.objects.filter(same, region=cluster.region).select_related("connector")
    keys = set(list_pause_keys(cluster))
    return [row.pk for row in rows if keys.intersection(list_pause_keys(row))]


def lift_sync_pause(cluster: SyncedCluster, now: datetime) -> None:
    """End the shared pause after a successful call; the other clusters become due at once."""
    if not end_pause(cluster, SYNC_OWNER):
        return
    paused = SyncedCluster.objects.filter(
        pk__in=list_pause_sharers(cluster), lease_expires_at=None, due_at__gt=now
    )
    paused.exclude(synced_at__gt=now - FIRST_PAUSE).update(due_at=now)


def allow_trial(cluster: SyncedCluster, now: datetime, owner: str = SYNC_OWNER) -> None:
    """Allow a retry at once, since a person requested it."""
    SyncPause.objects.filter(key__in=_list_stored_keys(cluster, owner)).update(
        paused_until=now, trial_expires_at=None
    )


def get_pauses(clusters: Iterable[SyncedCluster], owner: str = SYNC_OWNER) -> dict[int, SyncPause]:
    """Return the pause of each cluster by key, in one query; `connector` must be loaded."""
    keys = {cluster.pk: _list_stored_keys(cluster, owner) for cluster in clusters}
    wanted_keys = {key for pair in keys.values() for key in pair}
    by_key = {pause.key: pause for pause in SyncPause.objects.filter(key__in=wanted_keys)}
    return {pk: by_key[key] for pk, pair in keys.items() for key in pair if key in by_key}


def _list_stored_keys(cluster: SyncedCluster, owner: str) -> list[str]:
    return [key[:_KEY_LENGTH] for key in list_pause_keys(cluster, owner)]
