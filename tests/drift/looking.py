"""One whole sync and one whole look for drift."""

from delegates.clock import database_now
from deployments.engine import quota
from drift import clusters, looking
from drift.models import ComparedCluster, Comparison, Drift
from instances.clusters import enter_new
from instances.models import SyncedCluster
from instances.syncing import go_on


def synced() -> SyncedCluster:
    """The only cluster after a whole sync."""
    # The story's clock is ahead: what it drew from AWS's quota is in the future of this one.
    quota.forget()
    enter_new(database_now())
    SyncedCluster.objects.update(due_at=database_now())
    cluster = SyncedCluster.objects.get()
    go_on(cluster.pk)
    cluster.refresh_from_db()
    assert cluster.failure == ""
    return cluster


def compared() -> ComparedCluster:
    """The only cluster after a whole sync and a whole look."""
    cluster = synced()
    clusters.enter_new(database_now())
    one = clusters.ask_for(cluster, database_now())
    looking.go_on(one.pk)
    one.refresh_from_db()
    assert (one.failure, one.reading) == ("", None)
    return one


def drifts() -> list[str]:
    """What differs now, after a look."""
    compared()
    return sorted(f"{one.document}:{one.path}" for one in Drift.objects.filter(ended_at=None))


def state(name: str = "myapp") -> str:
    return Comparison.objects.get(seen__name=name).state
