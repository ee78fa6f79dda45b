"""Matrix of services and environments, with the versions that run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from catalog.models import Environment, Service
from inventory.dashboards.running_services import RunningService, list_running_services
from rbac.policy import Principal

# ECS services that one page of the matrix shows.
MAX_MATRIX_SERVICES = 500


@dataclass
class EnvironmentMatrixRow:
    """One service; `cells` has its running services by environment."""

    service: Service
    cells: list[list[RunningService]] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Return whether the environments run more than one version."""
        return (
            len(
                {
                    running_service.version
                    for cell in self.cells
                    for running_service in cell
                    if running_service.version
                }
            )
            > 1
        )


@dataclass(frozen=True)
class EnvironmentMatrix:
    """Services by environments, pre-production first."""

    environments: list[Environment]
    rows: list[EnvironmentMatrixRow]


def build_environment_matrix(principal: Principal, services: Sequence[Service]) -> EnvironmentMatrix:
    """Build the matrix of these services for the reader; two queries."""
    running_services = list_running_services(principal, services, limit=MAX_MATRIX_SERVICES)
    environments = _list_environments(running_services)
    cells: dict[tuple[int, int], list[RunningService]] = {}
    for running_service in running_services:
        if running_service.ecs_service.infrastructure and running_service.ecs_service.service_id:
            key = (
                running_service.ecs_service.service_id,
                running_service.ecs_service.infrastructure.environment_id,
            )
            cells.setdefault(key, []).append(running_service)
    rows = [
        EnvironmentMatrixRow(
            service, [cells.get((service.pk, running_service.pk), []) for running_service in environments]
        )
        for service in services
    ]
    return EnvironmentMatrix(environments, rows)


def _list_environments(running_services: Iterable[RunningService]) -> list[Environment]:
    environments = {
        infrastructure.environment_id: infrastructure.environment
        for item in running_services
        if (infrastructure := item.ecs_service.infrastructure)
    }
    return sorted(environments.values(), key=lambda item: (item.kind, item.name.casefold(), item.pk))
