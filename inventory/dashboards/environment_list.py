"""State of environments for their list: health of services, last deployment, freeze and drift."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef, QuerySet

from catalog.models import Environment, Infrastructure
from deployments.freezes.environment_freezes import EnvironmentFreeze, EnvironmentFreezes
from deployments.models import StageExecution
from inventory.dashboards.service_list import (
    build_newest_deployment,
    build_unhealthy_filter,
    get_health,
    list_visible_deployments,
)
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord
from inventory.queries.freshness import is_outdated
from rbac.policy import Principal

ENVIRONMENT_FILTERS: Final[Mapping[str, str]] = {
    "": "All environments",
    "unhealthy": "Unhealthy",
    "frozen": "Frozen",
    "drifted": "Drifted",
}
# From the worst; an environment has the health of its worst service.
HEALTH_ORDER: Final = ("UNHEALTHY", "UNKNOWN", "HEALTHY", "STOPPED")


@dataclass
class EnvironmentState:
    """One environment with its services counted by health, its last deployment, its freeze and its drift."""

    environment: Environment
    services: Counter[str] = field(default_factory=Counter)
    drift_count: int = 0
    has_infrastructures: bool = False
    last_deployment: StageExecution | None = None
    freeze: EnvironmentFreeze | None = None

    @property
    def health(self) -> str:
        """Return the worst health of the services; "" without services."""
        return next((health for health in HEALTH_ORDER if self.services[health]), "")

    @property
    def summary(self) -> str:
        """Return the number of services with the worst health, such as "1 of 3 unhealthy"."""
        count, total = self.services[self.health], self.services.total()
        return f"{count}{'' if count == total else f' of {total}'} {self.health.lower()}"

    @property
    def breakdown(self) -> str:
        """Return the number of services by health; "" where all have the same."""
        counts = [
            f"{self.services[health]} {health.lower()}" for health in HEALTH_ORDER if self.services[health]
        ]
        return ", ".join(counts) if len(counts) > 1 else ""


def filter_environments_by_state(
    environments: QuerySet[Environment], freezes: EnvironmentFreezes, name: str
) -> QuerySet[Environment]:
    """Return the environments that match one of `ENVIRONMENT_FILTERS`."""
    rows = EcsServiceRecord.objects.filter(infrastructure__environment=OuterRef("pk"), gone_at=None)
    if name == "unhealthy":
        return environments.filter(Exists(rows.filter(build_unhealthy_filter(), service__isnull=False)))
    if name == "drifted":
        return environments.filter(Exists(rows.filter(comparison__state=DriftComparison.State.DRIFTED)))
    return freezes.filter_frozen(environments) if name == "frozen" else environments


def list_environment_states(
    principal: Principal, environments: Sequence[Environment], freezes: EnvironmentFreezes, now: datetime
) -> list[EnvironmentState]:
    """Return the state of each environment that the reader may view, in the same order; three queries."""
    states = {environment.pk: EnvironmentState(environment) for environment in environments}
    _count_services(states, now)
    _load_last_deployments(principal, states)
    for state in states.values():
        state.freeze = freezes.get_freeze(state.environment)
    return list(states.values())


def _count_services(states: Mapping[int, EnvironmentState], now: datetime) -> None:
    """Count services by health, and ECS services with drift; one query."""
    # Whoever views an environment views its ECS services.
    columns = ("infrastructure__environment", "service", "desired", "cluster__synced_at", "comparison__state")
    rows = EcsServiceRecord.objects.filter(infrastructure__environment__in=list(states), gone_at=None)
    rows = rows.annotate(is_unhealthy=build_unhealthy_filter()).order_by()
    groups: defaultdict[tuple[int, int], list[tuple[bool, bool, bool]]] = defaultdict(list)
    for pk, service, desired, synced_at, drift, is_unhealthy in rows.values_list(*columns, "is_unhealthy"):
        states[pk].drift_count += drift == DriftComparison.State.DRIFTED
        if service is not None:
            groups[pk, service].append((is_unhealthy, is_outdated(synced_at, now), bool(desired)))
    for (pk, _), facts in groups.items():
        unhealthy, outdated, desired = (any(values) for values in zip(*facts, strict=True))
        health = get_health(is_unhealthy=unhealthy, is_outdated=outdated, has_desired_tasks=desired)
        states[pk].services[health] += 1


def _load_last_deployments(principal: Principal, states: Mapping[int, EnvironmentState]) -> None:
    """Load the newest deployment into each environment where the reader may view it; two queries."""
    infrastructures = Infrastructure.objects.filter(environment__in=list(states)).order_by()
    locations: dict[int, int] = {}
    for pk, deployment in infrastructures.values_list(
        "environment", build_newest_deployment("infrastructure")
    ):
        states[pk].has_infrastructures = True
        if deployment is not None:
            locations[deployment] = pk
    for row in list_visible_deployments(principal, list(locations)).order_by("pk"):
        states[locations[row.pk]].last_deployment = row
