"""Read plan of a drift scan: scaling, revisions registered outside Slipway, and traffic of adopted pairs."""

from datetime import datetime

from django.db.models import Q

from inventory.adoption.pairs import list_pair_target_groups
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import get_desired_state
from inventory.models.adoption import Adoption
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster


def list_compared_services(cluster: SyncedCluster) -> list[EcsServiceRecord]:
    """Return the ECS services that Slipway deploys or is to adopt."""
    adopting = Adoption.objects.filter(ecs_service__cluster=cluster).values("ecs_service")
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None)
    return list(rows.filter(Q(service__isnull=False) | Q(pk__in=adopting)).order_by("pk"))


def create_cursor(cluster: SyncedCluster, now: datetime) -> DriftCursor:
    """Return a cursor at the start of the read plan."""
    ecs_services = list_compared_services(cluster)
    desired_state = get_desired_state(cluster, ecs_services, now)
    foreign = {
        ecs_service.task_definition
        for ecs_service in ecs_services
        if ecs_service.task_definition
        # Services under deployment are not compared.
        and ecs_service.name not in desired_state.deploying
        and (
            ecs_service.name not in desired_state.desired
            or desired_state.desired[ecs_service.name].revision != ecs_service.task_definition
        )
    }
    known = set(TaskDefinitionRevision.objects.filter(arn__in=foreign).values_list("arn", flat=True))
    adopting = list_adopting_services(cluster)
    # An adoption needs the current status of the revision.
    adopting_revisions = {
        ecs_service.task_definition for ecs_service in adopting if ecs_service.task_definition
    }
    revisions = sorted((foreign - known) | adopting_revisions)
    groups = list_pair_target_groups(adopting)
    return DriftCursor.of(
        now.isoformat(), [ecs_service.name for ecs_service in ecs_services], revisions, groups
    )


def list_adopting_services(cluster: SyncedCluster) -> list[EcsServiceRecord]:
    """Return the ECS services with a pending adoption."""
    waiting = Adoption.objects.filter(ecs_service__cluster=cluster, state=Adoption.State.READING)
    return list(
        EcsServiceRecord.objects.filter(pk__in=waiting.values("ecs_service"), gone_at=None).order_by("pk")
    )
