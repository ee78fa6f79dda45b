"""Failures that many clusters share: they rest together, later each time, and one of them tries for all.

What is wrong with an account's calls in a region, with a connector's credentials or with its delegates is the
same for each cluster that is reached that way: each would be refused each minute.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Q

from aws.errors import AwsError, NotSent, Throttled, Unanswered, Unauthenticated, Undelivered
from delegates.doors import door_key
from deployments.engine.parking import quota_of
from inventory.models.instances import SyncedCluster, SyncPause
from inventory.sync import columns

SYNC: Final = "sync"
FIRST_PAUSE: Final = timedelta(minutes=1)
LONGEST_PAUSE: Final = timedelta(hours=1)
# How long one may try for all before another does.
TRIAL: Final = timedelta(seconds=60)
BESIDE_A_TRIAL: Final = timedelta(seconds=10)
_KEY: Final = 255
_OF_THE_WAY: Final = (Unauthenticated, NotSent, Unanswered, Undelivered)


@dataclass(frozen=True)
class Failure:
    """Why a sync did not go on, and what somebody can do about it."""

    text: str
    code: str = ""
    step: str = ""


def keys_of(cluster: SyncedCluster, who: str = SYNC) -> tuple[str, str]:
    """What a cluster shares with others: its account and region, and its connector there.

    `who` is the kind of chain: sync does not rest because something above it was refused.
    """
    mine = "" if who == SYNC else f"{who}:"
    return f"{mine}{quota_of(cluster)}", f"{mine}{door_key(cluster.connector)}/{cluster.region}"


def key_for(cluster: SyncedCluster, error: AwsError, who: str = SYNC) -> str:
    """Whose failure this is: of an account in a region, of a connector there; empty for the cluster's own."""
    account, way = keys_of(cluster, who)
    if isinstance(error, Throttled):
        return account
    return way if isinstance(error, _OF_THE_WAY) else ""


def pause_for(failures: int) -> timedelta:
    """How long to rest after so many failures before this one."""
    return min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE)


def pause(key: str, failure: Failure, now: datetime) -> datetime:
    """Let all that share this key rest, and say until when; a failure that is known already counts once."""
    told = {
        "failed_at": now,
        "failure": columns.text(failure.text),
        "failure_code": columns.text(failure.code, 128),
        "failure_step": columns.text(failure.step),
    }
    found, is_new = SyncPause.objects.get_or_create(
        key=key[:_KEY], defaults={"until": now + pause_for(0), "failures": 1, **told}
    )
    if is_new:
        return found.until
    until = now + pause_for(found.failures)
    over = SyncPause.objects.filter(pk=found.pk, until__lte=now)
    again = over.update(until=until, failures=F("failures") + 1, tried_until=None, **told)
    return until if again else found.until


def held_back(
    cluster: SyncedCluster, now: datetime, who: str = SYNC, *, is_under_way: bool = False
) -> datetime | None:
    """Until when a cluster rests with others; None if it may go on, perhaps as the one that tries for all.

    Who tries and is under way goes on trying: its next call is not another trial.
    """
    found = list(SyncPause.objects.filter(key__in=_kept(cluster, who)).order_by("pk"))
    if ahead := [rest.until for rest in found if rest.until > now]:
        return max(ahead)
    free = Q() if is_under_way else Q(tried_until__isnull=True) | Q(tried_until__lte=now)
    for rest in found:
        if not SyncPause.objects.filter(free, pk=rest.pk).update(tried_until=now + TRIAL):
            return now + BESIDE_A_TRIAL
    return None


def end_pause(cluster: SyncedCluster, who: str) -> bool:
    """Let nobody rest any more for what this cluster shares; whether anybody did."""
    return bool(SyncPause.objects.filter(key__in=_kept(cluster, who)).delete()[0])


def lift(cluster: SyncedCluster, now: datetime) -> None:
    """A call went well: who rested with this cluster goes on at once."""
    if not end_pause(cluster, SYNC):
        return
    same = Q(connector=cluster.connector_id)
    if cluster.account:
        same |= Q(account=cluster.account)
    resting = SyncedCluster.objects.filter(same, region=cluster.region, claimed_until=None, due_at__gt=now)
    resting.exclude(synced_at__gt=now - FIRST_PAUSE).update(due_at=now)


def try_now(cluster: SyncedCluster, now: datetime, who: str = SYNC) -> None:
    """Somebody asks for a look at once: it may have been mended."""
    SyncPause.objects.filter(key__in=_kept(cluster, who)).update(until=now, tried_until=None)


def rests(clusters: Iterable[SyncedCluster], who: str = SYNC) -> dict[int, SyncPause]:
    """What holds these clusters back, by their keys; one query. `connector` must come with them."""
    keys = {cluster.pk: _kept(cluster, who) for cluster in clusters}
    asked = {key for both in keys.values() for key in both}
    found = {rest.key: rest for rest in SyncPause.objects.filter(key__in=asked)}
    return {pk: found[key] for pk, both in keys.items() for key in both if key in found}


def _kept(cluster: SyncedCluster, who: str) -> list[str]:
    return [key[:_KEY] for key in keys_of(cluster, who)]
