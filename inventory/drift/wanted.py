"""What a look has to read of a cluster: what scales its ECS services, the revisions nobody here made, and
where the traffic of pairs that are taken over comes from."""

from datetime import datetime

from django.db.models import Q

from inventory.drift.desired import wanted_of
from inventory.drift.pairs import groups_to_read
from inventory.drift.reading import Reading
from inventory.models.drift import Adoption, KnownRevision
from inventory.models.instances import SeenService, SyncedCluster


def compared_services(cluster: SyncedCluster) -> list[SeenService]:
    """The ECS services of a cluster that are there and that Slipway deploys, or is to take over."""
    asked = Adoption.objects.filter(seen__cluster=cluster).values("seen")
    rows = SeenService.objects.filter(cluster=cluster, gone_at=None)
    return list(rows.filter(Q(service__isnull=False) | Q(pk__in=asked)).order_by("pk"))


def wanted_reading(cluster: SyncedCluster, now: datetime) -> Reading:
    """A reading from its beginning."""
    seen = compared_services(cluster)
    wanted = wanted_of(cluster, seen, now)
    foreign = {
        one.task_definition
        for one in seen
        if one.task_definition
        # What is being deployed is not compared.
        and one.name not in wanted.deploying
        and (one.name not in wanted.desired or wanted.desired[one.name].revision != one.task_definition)
    }
    known = set(KnownRevision.objects.filter(arn__in=foreign).values_list("arn", flat=True))
    asked = asked_services(cluster)
    # Whether a revision may still be used is read anew for who wants to take it over.
    anew = {one.task_definition for one in asked if one.task_definition}
    revisions = sorted((foreign - known) | anew)
    return Reading.of(now.isoformat(), [one.name for one in seen], revisions, groups_to_read(asked))


def asked_services(cluster: SyncedCluster) -> list[SeenService]:
    """Those that somebody waits for, to take them over."""
    waiting = Adoption.objects.filter(seen__cluster=cluster, state=Adoption.State.READING)
    return list(SeenService.objects.filter(pk__in=waiting.values("seen"), gone_at=None).order_by("pk"))
