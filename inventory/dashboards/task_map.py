"""Task map of an ECS service by availability zone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Case, F, Q, Value, When, Window
from django.db.models.functions import RowNumber

from inventory.models.instances import ServiceInstance

# The limits of drawn tasks for each ECS service and for a page.
MAX_DRAWN_PER_SERVICE: Final = 120
MAX_DRAWN_TASKS: Final = 600
MIN_DRAWN_PER_SERVICE: Final = 12
RUNNING: Final = "RUNNING"
UNHEALTHY_STATUS: Final = "UNHEALTHY"


@dataclass
class TaskMapZone:
    """The tasks of one availability zone. `drawn` has unhealthy ones first, then the newest."""

    name: str
    total: int = 0
    unhealthy: int = 0
    transitioning: int = 0
    outdated: int = 0
    drawn: list[ServiceInstance] = field(default_factory=list)

    def count(self, number: int, *, status: str, health: str, is_old: bool) -> None:
        """Add a number of equal tasks."""
        self.total += number
        self.outdated += number if is_old else 0
        if status != RUNNING:
            self.transitioning += number
        elif health == UNHEALTHY_STATUS:
            self.unhealthy += number


def load_drawn_tasks(zones: Mapping[int, Mapping[str, TaskMapZone]]) -> None:
    """Load the drawn tasks of the zones, by service and zone name; one query."""
    keys = [pk for pk, by_name in zones.items() if by_name]
    limit = max(MIN_DRAWN_PER_SERVICE, min(MAX_DRAWN_PER_SERVICE, MAX_DRAWN_TASKS // max(len(keys), 1)))
    order = Case(
        When(~Q(last_status=RUNNING), then=Value(1)),
        When(health=UNHEALTHY_STATUS, then=Value(0)),
        When(~Q(task_definition=F("ecs_service__task_definition")), then=Value(2)),
        default=Value(3),
    )
    rank = Window(RowNumber(), partition_by="ecs_service_id", order_by=(order.asc(), "-created_at", "-pk"))
    columns = ("task_id", "ecs_service", "last_status", "health", "zone", "task_definition", "created_at")
    rows = ServiceInstance.objects.filter(ecs_service__in=keys, stopped_at=None).annotate(rank=rank)
    for task in rows.filter(rank__lte=limit).only(*columns).order_by("zone", "created_at", "pk"):
        if (zone := zones.get(task.ecs_service_id or 0, {}).get(task.zone)) is not None:
            zone.drawn.append(task)
