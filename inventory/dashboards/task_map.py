"""The map of the tasks of an ECS service: by zone, counted in full, and drawn as far as a page has room."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Case, F, Q, Value, When, Window
from django.db.models.functions import RowNumber

from inventory.models.instances import ServiceInstance

# Tasks of one ECS service that a page draws, and of all that it shows together.
MOST_DRAWN: Final = 120
MOST_DRAWN_IN_ALL: Final = 600
LEAST_DRAWN: Final = 12
RUNNING: Final = "RUNNING"
SICK: Final = "UNHEALTHY"


@dataclass
class Zone:
    """The tasks in one availability zone; `drawn` are those that ask for an eye first, then the newest."""

    name: str
    total: int = 0
    sick: int = 0
    moving: int = 0
    old: int = 0
    drawn: list[ServiceInstance] = field(default_factory=list)

    def count(self, number: int, *, status: str, health: str, is_old: bool) -> None:
        """Add so many tasks that look alike."""
        self.total += number
        self.old += number if is_old else 0
        if status != RUNNING:
            self.moving += number
        elif health == SICK:
            self.sick += number


def draw(zones: Mapping[int, Mapping[str, Zone]]) -> None:
    """Put the tasks that are drawn into the zones, by service and name; one query."""
    places = [pk for pk, named in zones.items() if named]
    each = max(LEAST_DRAWN, min(MOST_DRAWN, MOST_DRAWN_IN_ALL // max(len(places), 1)))
    first = Case(
        When(~Q(last_status=RUNNING), then=Value(1)),
        When(health=SICK, then=Value(0)),
        When(~Q(task_definition=F("seen__task_definition")), then=Value(2)),
        default=Value(3),
    )
    rank = Window(RowNumber(), partition_by="seen_id", order_by=(first.asc(), "-created_at", "-pk"))
    columns = ("task_id", "seen", "last_status", "health", "zone", "task_definition", "created_at")
    rows = ServiceInstance.objects.filter(seen__in=places, stopped_at=None).annotate(rank=rank)
    for one in rows.filter(rank__lte=each).only(*columns).order_by("zone", "created_at", "pk"):
        if (zone := zones.get(one.seen_id or 0, {}).get(one.zone)) is not None:
            zone.drawn.append(one)
