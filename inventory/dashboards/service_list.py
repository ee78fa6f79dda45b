"""State of services for their list: health, version per environment, last deployment and drift."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from catalog.models import Service
from deployments.models import StageExecution
from inventory.dashboards.drift_summaries import DriftSummary, summarize_drift
from inventory.dashboards.running_services import (
    UNHEALTHY,
    VIEW_ENVIRONMENT,
    RunningService,
    can_see_every_environment,
    list_running_services,
)
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.queries.freshness import is_outdated
from inventory.queries.instances import MAX_LISTED_ECS_SERVICES
from inventory.queries.service_deployments import VIEW_PIPELINE
from rbac.policy import Principal, filter_visible

SERVICE_FILTERS: Final[Mapping[str, str]] = {
    "": "All services",
    "unhealthy": "Unhealthy",
    "drifted": "Drifted",
    "undeployed": "Not deployed",
}


def build_unhealthy_filter() -> Q:
    """Return the condition that an ECS service lacks tasks or has unhealthy ones."""
    tasks = ServiceInstance.objects.filter(UNHEALTHY, ecs_service=OuterRef("pk"))
    return Q(running__lt=F("desired")) | Q(Exists(tasks))


def get_health(*, is_unhealthy: bool, is_outdated: bool, has_desired_tasks: bool) -> str:
    """Return HEALTHY, UNHEALTHY, UNKNOWN or STOPPED; UNHEALTHY takes precedence over UNKNOWN."""
    if is_unhealthy:
        return "UNHEALTHY"
    if is_outdated:
        return "UNKNOWN"
    return "HEALTHY" if has_desired_tasks else "STOPPED"


@dataclass
class ServiceState:
    """One service with its ECS services and its last deployment.

    `outdated` holds the ECS services whose cluster was not synced lately. `is_incomplete` is set where the
    page read only a part of the ECS services, `has_hidden_places` where the reader may not view each
    environment to which the service can be deployed.
    """

    service: Service
    running_services: list[RunningService] = field(default_factory=list)
    drifts: list[DriftSummary] = field(default_factory=list)
    outdated: set[int] = field(default_factory=set)
    last_deployment: StageExecution | None = None
    is_incomplete: bool = False
    has_hidden_places: bool = False

    @property
    def health(self) -> str:
        """Return the health of the service; "" for a service without ECS services."""
        if not self.running_services and not self.is_incomplete:
            return ""
        return get_health(
            is_unhealthy=any(self.is_unhealthy(item) for item in self.running_services),
            is_outdated=bool(self.outdated) or self.is_incomplete,
            has_desired_tasks=any(item.ecs_service.desired for item in self.running_services),
        )

    @property
    def reason(self) -> str:
        """Return the reason for a health that is not HEALTHY."""
        for item in self.running_services:
            row, count = item.ecs_service, item.unhealthy_tasks
            if count:
                return f"{row.name}: {count} unhealthy task{'s' if count > 1 else ''}"
            if row.running < row.desired:
                return f"{row.name}: {row.running} of {row.desired} running"
        if self.is_incomplete:
            return f"This page shows at most {MAX_LISTED_ECS_SERVICES} ECS services; narrow the list"
        return "The cluster was not synced for 6 minutes" if self.outdated else ""

    def is_unhealthy(self, item: RunningService) -> bool:
        row = item.ecs_service
        return row.running < row.desired or bool(item.unhealthy_tasks)


def filter_services_by_state(
    services: QuerySet[Service], principal: Principal, name: str
) -> QuerySet[Service]:
    """Return the services that match one of `SERVICE_FILTERS`, by what the reader may view."""
    if not name:
        return services
    rows = EcsServiceRecord.objects.filter(service=OuterRef("pk"), gone_at=None)
    visible = filter_visible(principal, VIEW_ENVIRONMENT, rows)
    if name == "unhealthy":
        return services.filter(Exists(visible.filter(build_unhealthy_filter())))
    if name == "drifted":
        return services.filter(Exists(visible.filter(comparison__state=DriftComparison.State.DRIFTED)))
    return services.filter(~Exists(visible))


def list_service_states(
    principal: Principal, services: Sequence[Service], now: datetime
) -> list[ServiceState]:
    """Return the state of each service, in the same order; three queries."""
    running_services = list_running_services(principal, services, limit=MAX_LISTED_ECS_SERVICES + 1)
    is_incomplete = len(running_services) > MAX_LISTED_ECS_SERVICES
    states = {
        service.pk: ServiceState(
            service,
            is_incomplete=is_incomplete,
            has_hidden_places=not can_see_every_environment(principal, [service]),
        )
        for service in services
    }
    for item in running_services[:MAX_LISTED_ECS_SERVICES]:
        row = item.ecs_service
        state = states[row.service_id or 0]
        state.running_services.append(item)
        state.drifts.append(summarize_drift(row, now))
        if is_outdated(row.cluster.synced_at, now):
            state.outdated.add(row.pk)
    for deployment in _list_last_deployments(principal, services):
        states[deployment.service_id or 0].last_deployment = deployment
    return list(states.values())


def _list_last_deployments(principal: Principal, services: Sequence[Service]) -> QuerySet[StageExecution]:
    """Return the newest deployment of each service where the reader may view it."""
    rows = Service.objects.filter(pk__in=[service.pk for service in services])
    keys = rows.values_list(build_newest_deployment("service"))
    return list_visible_deployments(principal, keys)


def build_newest_deployment(field: str) -> Subquery:
    """Return the key of the newest deployment whose `field` (service, infrastructure) is the outer row.

    A range from the key to itself makes SQLite use the index. With `=`, it reads all from the newest on.
    """
    same = {f"{field}__gte": OuterRef("pk"), f"{field}__lte": OuterRef("pk")}
    stages = StageExecution.objects.filter(**same, reused_from=None)
    return Subquery(stages.order_by(field, "-pk").values("pk")[:1])


def list_visible_deployments(
    principal: Principal, keys: QuerySet[Any, Any] | Sequence[int]
) -> QuerySet[StageExecution]:
    """Return the deployments with these keys that the reader may view, with the columns of a list."""
    rows = StageExecution.objects.filter(pk__in=keys).select_related("execution__pipeline", "service")
    rows = rows.only(
        "service__name",
        "infrastructure",
        "status",
        "execution__number",
        "execution__status",
        "execution__outcome",
        "execution__created_at",
        "execution__tag",
        "execution__scope",
        "execution__pipeline__name",
    )
    return filter_visible(principal, VIEW_PIPELINE, rows)
