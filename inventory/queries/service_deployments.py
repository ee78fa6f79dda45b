"""Deployments of a service, and the newest events of its ECS services."""

from typing import Final

from django.db.models import QuerySet

from catalog.models import Service
from deployments.models import StageExecution
from inventory.models.instances import EcsServiceEvent
from rbac.models import User
from rbac.policy import Principal, filter_visible
from steps.states import TERMINAL_STATUSES, Outcome

VIEW_PIPELINE: Final = "core_pipeline_view"
MAX_ACTIVE_DEPLOYMENTS: Final = 10
MAX_EVENTS: Final = 10
# More than any key has.
MAX_KEY_DIGITS: Final = 18


def list_service_deployments(principal: User, service: Service) -> QuerySet[StageExecution]:
    """Return the visible deployments of a service, with their relations.

    A stage that reuses the results of an earlier attempt deployed nothing.
    """
    rows = (
        StageExecution.objects.filter(service=service, reused_from=None)
        .select_related(
            "execution__pipeline",
            "execution__started_by",
            "execution__rerun_of",
            "infrastructure__environment",
        )
        .defer("sources", "execution__yaml", "execution__pipeline__yaml", "execution__rerun_of__yaml")
    )
    return filter_visible(principal, VIEW_PIPELINE, rows)


def get_deployment(deployments: QuerySet[StageExecution], key: object) -> StageExecution | None:
    """Return the deployment with a key from an address, or None."""
    text = str(key)
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_KEY_DIGITS):
        return None
    return deployments.filter(pk=int(text)).first()


def list_active_deployments(deployments: QuerySet[StageExecution]) -> list[StageExecution]:
    """Return the active deployments, the newest first."""
    return list(deployments.exclude(status__in=TERMINAL_STATUSES).order_by("-pk")[:MAX_ACTIVE_DEPLOYMENTS])


def get_latest_deployment(
    deployments: QuerySet[StageExecution], target: StageExecution
) -> StageExecution | None:
    """Return the newest successful deployment to the same ECS service."""
    same_service = deployments.filter(
        connector=target.connector_id,
        region=target.region,
        cluster=target.cluster,
        ecs_service=target.ecs_service,
    )
    return same_service.filter(execution__outcome=Outcome.COMPLETED).order_by("-pk").first()


def list_newest_events(principal: Principal, service: Service) -> list[EcsServiceEvent]:
    """Return the newest events of a service's ECS services."""
    rows = EcsServiceEvent.objects.filter(ecs_service__service=service).select_related(
        "ecs_service__infrastructure__environment", "ecs_service__cluster"
    )
    return list(filter_visible(principal, "core_environment_view", rows).order_by("-at", "-pk")[:MAX_EVENTS])
