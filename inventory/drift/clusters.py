"""Which clusters are looked at: those that sync has seen whole, and where there is something to compare."""

from datetime import datetime
from typing import Final

from django.db.models import Exists, F, OuterRef, Q

from deployments.models import StageExecution
from inventory.models.drift import Adoption, ComparedCluster
from inventory.models.instances import SeenService, SyncedCluster
from inventory.sync.clusters import FOLLOWED
from inventory.sync.pausing import FIRST_PAUSE, end_pause, try_now

# Of the chains that look for drift, as delegate tasks and shared pauses name them.
DRIFT: Final = "drift"


def enter_new(now: datetime) -> int:
    """Make a row for each synced cluster with something to compare that has none; they are due at once."""
    ours = SeenService.objects.filter(cluster=OuterRef("pk"), gone_at=None).filter(
        Q(service__isnull=False) | Exists(Adoption.objects.filter(seen=OuterRef("pk")))
    )
    rows = SyncedCluster.objects.filter(Exists(ours), synced_at__isnull=False, compared=None)
    made = [ComparedCluster(cluster=cluster, due_at=now) for cluster in rows]
    return len(ComparedCluster.objects.bulk_create(made, ignore_conflicts=True))


def follow_deployments(now: datetime) -> int:
    """Look at once where sync has seen what a deployment left that has ended since the last look."""
    ended = StageExecution.objects.filter(
        connector=OuterRef("cluster__connector"),
        region=OuterRef("cluster__region"),
        cluster=OuterRef("cluster__cluster"),
        execution__ended_at__gt=now - FOLLOWED,
    ).filter(execution__ended_at__gt=OuterRef("compared_at"))
    waiting = ComparedCluster.objects.filter(
        Exists(ended),
        due_at__gt=now,
        failures=0,
        reading__isnull=True,
        cluster__synced_at__gt=F("compared_at"),
    )
    return waiting.update(due_at=now)


def due(now: datetime, most: int) -> list[int]:
    """The keys of clusters that are due and in nobody's hands, the longest waiting first.

    Where sync has seen nothing new since the last look, there is nothing new to compare.
    """
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)
    seen = Q(compared_at=None) | Q(compared_at__lt=F("cluster__synced_at"))
    rows = ComparedCluster.objects.filter(
        free, seen, due_at__lte=now, cluster__due_at__isnull=False
    ).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:most])


def let_all_go_on(compared: ComparedCluster, now: datetime) -> None:
    """A look went well: those that rested with it go on at once."""
    cluster = compared.cluster
    if not end_pause(cluster, DRIFT):
        return
    same = Q(cluster__connector=cluster.connector_id)
    if cluster.account:
        same |= Q(cluster__account=cluster.account)
    resting = ComparedCluster.objects.filter(
        same, cluster__region=cluster.region, claimed_until=None, due_at__gt=now
    )
    # Whoever came while the others rested has not failed itself.
    resting.exclude(failures=0, compared_at__gt=now - FIRST_PAUSE).update(due_at=now)


def ask_for(cluster: SyncedCluster, now: datetime) -> ComparedCluster:
    """Bring the next look at a cluster forward: the rows are compared as they are."""
    try_now(cluster, now, DRIFT)
    compared, is_new = ComparedCluster.objects.get_or_create(cluster=cluster, defaults={"due_at": now})
    if not is_new:
        ComparedCluster.objects.filter(pk=compared.pk, reading__isnull=True).update(
            due_at=now, compared_at=None
        )
        # One that rests half way goes on from there.
        ComparedCluster.objects.filter(pk=compared.pk, due_at__gt=now).update(due_at=now)
    return compared
