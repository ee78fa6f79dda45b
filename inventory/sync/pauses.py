"""Pauses with growing backoff that clusters with a shared failure take together; one of them retries.

What is wrong with an account's calls in a region, with a connector's credentials or with its delegates is the
same for each cluster that is reached that way: each would be refused each minute.
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
# How long one may try for all before another does.
TRIAL_DURATION: Final = timedelta(seconds=60)
TRIAL_POLL_INTERVAL: Final = timedelta(seconds=10)
_KEY_LENGTH: Final = 255
_CONNECTION_ERRORS: Final = (Unauthenticated, NotSent, Unanswered, Undelivered)


@dataclass(frozen=True)
class ScanFailure:
    """Why a sync did not go on, and what somebody can do about it."""

    text: str
    code: str = ""
    next_step: str = ""


def list_pause_keys(cluster: SyncedCluster, who: str = SYNC_OWNER) -> tuple[str, str]:
    """What a cluster shares with others: its account and region, and its connector there.

    `who` is the kind of chain: sync does not rest because something above it was refused.
    """
    mine = "" if who == SYNC_OWNER else f"{who}:"
    return (
        f"{mine}{get_rate_limit_key(cluster)}",
        f"{mine}{build_cache_key(cluster.connector)}/{cluster.region}",
    )


def choose_pause_key(cluster: SyncedCluster, error: AwsError, who: str = SYNC_OWNER) -> str:
    """Whose failure this is: of an account in a region, of a connector there; empty for the cluster's own."""
    account, way = list_pause_keys(cluster, who)
    if isinstance(error, Throttled):
        return account
    return way if isinstance(error, _CONNECTION_ERRORS) else ""


def compute_backoff(failures: int) -> timedelta:
    """How long to rest after so many failures before this one."""
    return min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE)


def record_pause(key: str, failure: ScanFailure, now: datetime) -> datetime:
    """Let all that share this key rest, and say until when; a failure that is known already counts once."""
    told = {
        "failed_at": now,
        "failure": column_values.clean_text(failure.text),
        "failure_code": column_values.clean_text(failure.code, 128),
        "failure_step": column_values.clean_text(failure.next_step),
    }
    found, is_new = SyncPause.objects.get_or_create(
        key=key[:_KEY_LENGTH], defaults={"paused_until": now + compute_backoff(0), "failures": 1, **told}
    )
    if is_new:
        return found.paused_until
    until = now + compute_backoff(found.failures)
    over = SyncPause.objects.filter(pk=found.pk, paused_until__lte=now)
    again = over.update(paused_until=until, failures=F("failures") + 1, trial_expires_at=None, **told)
    return until if again else found.paused_until


def claim_trial(
    cluster: SyncedCluster, now: datetime, who: str = SYNC_OWNER, *, is_under_way: bool = False
) -> datetime | None:
    """Until when a cluster rests with others; None if it may go on, perhaps as the one that tries for all.

    Who tries and is under way goes on trying: its next call is not another trial.
    """
    found = list(SyncPause.objects.filter(key__in=_list_stored_keys(cluster, who)).order_by("pk"))
    if ahead := [rest.paused_until for rest in found if rest.paused_until > now]:
        return max(ahead)
    free = Q() if is_under_way else Q(trial_expires_at__isnull=True) | Q(trial_expires_at__lte=now)
    for rest in found:
        if not SyncPause.objects.filter(free, pk=rest.pk).update(trial_expires_at=now + TRIAL_DURATION):
            return now + TRIAL_POLL_INTERVAL
    return None


def end_pause(cluster: SyncedCluster, who: str) -> bool:
    """Let nobody rest any more for what this cluster shares; whether anybody did."""
    return bool(SyncPause.objects.filter(key__in=_list_stored_keys(cluster, who)).delete()[0])


def lift_sync_pause(cluster: SyncedCluster, now: datetime) -> None:
    """A call went well: who rested with this cluster goes on at once."""
    if not end_pause(cluster, SYNC_OWNER):
        return
    same = Q(connector=cluster.connector_id)
    if cluster.account:
        same |= Q(account=cluster.account)
    resting = SyncedCluster.objects.filter(same, region=cluster.region, lease_expires_at=None, due_at__gt=now)
    resting.exclude(synced_at__gt=now - FIRST_PAUSE).update(due_at=now)


def allow_trial(cluster: SyncedCluster, now: datetime, who: str = SYNC_OWNER) -> None:
    """Somebody asks for a look at once: it may have been mended."""
    SyncPause.objects.filter(key__in=_list_stored_keys(cluster, who)).update(
        paused_until=now, trial_expires_at=None
    )


def get_pauses(clusters: Iterable[SyncedCluster], who: str = SYNC_OWNER) -> dict[int, SyncPause]:
    """What holds these clusters back, by their keys; one query. `connector` must come with them."""
    keys = {cluster.pk: _list_stored_keys(cluster, who) for cluster in clusters}
    asked = {key for both in keys.values() for key in both}
    found = {rest.key: rest for rest in SyncPause.objects.filter(key__in=asked)}
    return {pk: found[key] for pk, both in keys.items() for key in both if key in found}


def _list_stored_keys(cluster: SyncedCluster, who: str) -> list[str]:
    return [key[:_KEY_LENGTH] for key in list_pause_keys(cluster, who)]
