"""One whole sync and one whole look for drift."""

from datetime import datetime

from django.db.models import Max

from deployments.engine import quota
from deployments.models import Execution, StepExecution
from inventory.drift import clusters, looking
from inventory.drift.wanted import wanted_reading
from inventory.models.drift import ComparedCluster, Comparison, Drift
from inventory.models.instances import SeenService, SyncedCluster
from inventory.sync.clusters import enter_new
from inventory.sync.syncing import go_on
from web.clock import database_now


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
    _after_the_story()
    return cluster


def _after_the_story() -> None:
    """Its clock is ahead: to this one, sync has looked before the last execution has ended."""
    SeenService.objects.update(seen_at=story_now())


def story_now() -> datetime:
    """A moment after all that has happened."""
    steps, executions = StepExecution.objects, Execution.objects
    ends = [steps.aggregate(at=Max("ended_at"))["at"], executions.aggregate(at=Max("ended_at"))["at"]]
    return max([database_now(), *(one for one in ends if one)])


def asked_for(cluster: SyncedCluster) -> ComparedCluster:
    """A look that begins now, by the clock of the story."""
    one = clusters.ask_for(cluster, database_now())
    begun = wanted_reading(cluster, story_now()).to_row()
    ComparedCluster.objects.filter(pk=one.pk, reading__isnull=True).update(reading=begun)
    return one


def compared() -> ComparedCluster:
    """The only cluster after a whole sync and a whole look."""
    return looked_at(synced())


def looked_at(cluster: SyncedCluster) -> ComparedCluster:
    """The same after a whole look at what sync has seen."""
    quota.forget()
    clusters.enter_new(database_now())
    one = asked_for(cluster)
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
