"""What was deployed of a service: each stage of each execution, who started it and how it ended."""

from typing import Final

from django.db.models import QuerySet

from catalog.models import Service
from deployments.models import StageExecution
from inventory.models.instances import SeenEvent
from rbac.models import User
from rbac.policy import Principal, visible_below, visible_to
from steps.states import TERMINAL, Outcome

VIEW: Final = "core_pipeline_view"
MOST_ACTIVE: Final = 10
MOST_EVENTS: Final = 10


def deployments_of(principal: User, service: Service) -> QuerySet[StageExecution]:
    """The deployments of a service that a person may see, with what a list shows."""
    rows = (
        StageExecution.objects.filter(service=service)
        .select_related(
            "execution__pipeline",
            "execution__started_by",
            "execution__replays",
            "infrastructure__environment",
        )
        .defer("sources", "execution__yaml", "execution__pipeline__yaml", "execution__replays__yaml")
    )
    return visible_below(principal, VIEW, rows)


def active(deployments: QuerySet[StageExecution]) -> list[StageExecution]:
    """Those under way, the newest first."""
    return list(deployments.exclude(status__in=TERMINAL).order_by("-pk")[:MOST_ACTIVE])


def latest_of(deployments: QuerySet[StageExecution], target: StageExecution) -> StageExecution | None:
    """The newest of `deployments` that went to the same ECS service and took hold."""
    same = deployments.filter(
        connector=target.connector_id,
        region=target.region,
        cluster=target.cluster,
        ecs_service=target.ecs_service,
    )
    return same.filter(execution__outcome=Outcome.COMPLETED).order_by("-pk").first()


def newest_events(principal: Principal, service: Service) -> list[SeenEvent]:
    """What ECS last said about the ECS services of a service."""
    rows = SeenEvent.objects.filter(seen__service=service).select_related(
        "seen__infrastructure__environment", "seen__cluster"
    )
    return list(visible_to(principal, "core_environment_view", rows).order_by("-at", "-pk")[:MOST_EVENTS])
