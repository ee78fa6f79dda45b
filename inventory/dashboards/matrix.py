"""Which version of each service runs in each environment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from catalog.models import Environment, Service
from inventory.dashboards.running import Place, places_of
from rbac.policy import Principal

# ECS services that one page of the matrix shows.
MOST_PLACES = 500


@dataclass
class Row:
    """One service; `cells` has its places for each environment of the matrix, in that order."""

    service: Service
    cells: list[list[Place]] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether its environments run more than one version."""
        return len({one.version for cell in self.cells for one in cell if one.version}) > 1


@dataclass(frozen=True)
class Matrix:
    """Services by environments; pre-production comes before production."""

    environments: list[Environment]
    rows: list[Row]


def matrix(principal: Principal, services: Sequence[Service]) -> Matrix:
    """What runs of these services where, as far as the reader may see it; two queries."""
    places = places_of(principal, services, most=MOST_PLACES)
    environments = _environments(places)
    cells: dict[tuple[int, int], list[Place]] = {}
    for one in places:
        if one.seen.infrastructure and one.seen.service_id:
            key = one.seen.service_id, one.seen.infrastructure.environment_id
            cells.setdefault(key, []).append(one)
    rows = [
        Row(service, [cells.get((service.pk, one.pk), []) for one in environments]) for service in services
    ]
    return Matrix(environments, rows)


def _environments(places: Iterable[Place]) -> list[Environment]:
    found = {place.environment_id: place.environment for one in places if (place := one.seen.infrastructure)}
    return sorted(found.values(), key=lambda one: (one.kind, one.name.casefold(), one.pk))
