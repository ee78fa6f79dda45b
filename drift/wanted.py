"""What a look has to read of a cluster: what scales its ECS services, and the revisions nobody here made."""

from datetime import datetime

from django.db.models import Q

from drift.desired import wanted_of
from drift.models import Adoption, KnownRevision
from drift.reading import Reading
from instances.models import SeenService, SyncedCluster


def compared_services(cluster: SyncedCluster) -> list[SeenService]:
    """The ECS services of a cluster that are there and that Slipway deploys, or is to take over."""
    asked = Adoption.objects.filter(seen__cluster=cluster).values("seen")
    rows = SeenService.objects.filter(cluster=cluster, gone_at=None)
    return list(rows.filter(Q(service__isnull=False) | Q(pk__in=asked)).order_by("pk"))


def wanted_reading(cluster: SyncedCluster, now: datetime) -> Reading:
    """A reading from its beginning."""
    seen = compared_services(cluster)
    wanted = wanted_of(cluster, seen)
    foreign = {
        one.task_definition
        for one in seen
        if one.task_definition
        and (one.name not in wanted.desired or wanted.desired[one.name].revision != one.task_definition)
    }
    known = set(KnownRevision.objects.filter(arn__in=foreign).values_list("arn", flat=True))
    return Reading.of(now.isoformat(), [one.name for one in seen], sorted(foreign - known))
