"""Read plan of a drift scan: scaling, revisions registered elsewhere, and traffic of adopted pairs.
where the traffic of pairs that are taken over comes from."""

from datetime import datetime

from django.db.models import Q

from inventory.adoption.pairs import list_pair_target_groups
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import get_desired_state
from inventory.models.adoption import Adoption
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster


def list_compared_services(cluster: SyncedCluster) -> list[EcsServiceRecord]:
    """The ECS services of a cluster that are there and that Slipway deploys, or is to take over."""
    asked = Adoption.objects.filter(ecs_service__cluster=cluster).values("ecs_service")
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None)
    return list(rows.filter(Q(service__isnull=False) | Q(pk__in=asked)).order_by("pk"))


def create_cursor(cluster: SyncedCluster, now: datetime) -> DriftCursor:
    """A reading from its beginning."""
    seen = list_compared_services(cluster)
    wanted = get_desired_state(cluster, seen, now)
    foreign = {
        one.task_definition
        for one in seen
        if one.task_definition
        # What is being deployed is not compared.
        and one.name not in wanted.deploying
        and (one.name not in wanted.desired or wanted.desired[one.name].revision != one.task_definition)
    }
    known = set(TaskDefinitionRevision.objects.filter(arn__in=foreign).values_list("arn", flat=True))
    asked = list_adopting_services(cluster)
    # Whether a revision may still be used is read anew for who wants to take it over.
    anew = {one.task_definition for one in asked if one.task_definition}
    revisions = sorted((foreign - known) | anew)
    groups = list_pair_target_groups(asked)
    return DriftCursor.of(now.isoformat(), [one.name for one in seen], revisions, groups)


def list_adopting_services(cluster: SyncedCluster) -> list[EcsServiceRecord]:
    """Those that somebody waits for, to take them over."""
    waiting = Adoption.objects.filter(ecs_service__cluster=cluster, state=Adoption.State.READING)
    return list(
        EcsServiceRecord.objects.filter(pk__in=waiting.values("ecs_service"), gone_at=None).order_by("pk")
    )
