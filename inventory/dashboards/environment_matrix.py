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
    """One service; `cells` has its places for each environment of the matrix, in that order."""

    service: Service
    cells: list[list[RunningService]] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether its environments run more than one version."""
        return len({one.version for cell in self.cells for one in cell if one.version}) > 1


@dataclass(frozen=True)
class EnvironmentMatrix:
    """Services by environments; pre-production comes before production."""

    environments: list[Environment]
    rows: list[EnvironmentMatrixRow]


def build_environment_matrix(principal: Principal, services: Sequence[Service]) -> EnvironmentMatrix:
    """What runs of these services where, as far as the reader may see it; two queries."""
    places = list_running_services(principal, services, most=MAX_MATRIX_SERVICES)
    environments = _list_environments(places)
    cells: dict[tuple[int, int], list[RunningService]] = {}
    for one in places:
        if one.ecs_service.infrastructure and one.ecs_service.service_id:
            key = one.ecs_service.service_id, one.ecs_service.infrastructure.environment_id
            cells.setdefault(key, []).append(one)
    rows = [
        EnvironmentMatrixRow(service, [cells.get((service.pk, one.pk), []) for one in environments])
        for service in services
    ]
    return EnvironmentMatrix(environments, rows)


def _list_environments(places: Iterable[RunningService]) -> list[Environment]:
    found = {
        place.environment_id: place.environment for one in places if (place := one.ecs_service.infrastructure)
    }
    return sorted(found.values(), key=lambda one: (one.kind, one.name.casefold(), one.pk))
