"""Live topic of service dashboards."""

import time
from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from django.db.models import Count, Max

from catalog.models import Service
from deployments.models import StageExecution
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync.watched_services import RECORD_INTERVAL, record_watched_services
from rbac.policy import get_resource_locations
from steps.states import TERMINAL_STATUSES
from web.clock import get_database_time
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows
from web.live.sources import parse_primary_keys

VIEW_SERVICE: Final = "core_service_view"
SCAN_INTERVAL_SECONDS: Final = 2
_SERVICE_COLUMNS: Final = (
    "service_id",
    "pk",
    "desired",
    "running",
    "pending",
    "task_definition",
    "targets_read_at",
    "usage_read_at",
)
_TASK_COLUMNS: Final = ("ecs_service__service_id", "last_status", "health", "task_definition")
_recorded_at = time.monotonic()


def read_dashboard_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return how the dashboards of these services look; four queries."""
    services = parse_primary_keys(Service, keys or ())
    _record_views(services)
    facts = read_service_facts(services)
    return {
        services[pk]: (
            TopicSnapshot(
                Audience(place, VIEW_SERVICE), facts[pk], frozenset({f"service-dashboard:{services[pk]}"})
            ),
        )
        for pk, place in get_resource_locations(Service, services).items()
    }


def read_service_facts(services: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the facts that the dashboard of each service shows; three queries."""
    facts: defaultdict[int, list[str]] = defaultdict(list)
    records = EcsServiceRecord.objects.filter(service__in=services, gone_at=None).order_by("pk")
    tasks = ServiceInstance.objects.filter(ecs_service__service__in=services, stopped_at=None)
    counted = tasks.values_list(*_TASK_COLUMNS).annotate(count=Count("pk"), newest=Max("pk"))
    stages = StageExecution.objects.filter(service__in=services).exclude(status__in=TERMINAL_STATUSES)
    rows: tuple[Any, ...] = (
        records.values_list(*_SERVICE_COLUMNS),
        counted.order_by(*_TASK_COLUMNS),
        stages.order_by("pk").values_list("service_id", "pk", "status", "counts"),
    )
    for group in rows:
        for service, *columns in group:
            facts[service].append(str(columns))
    return {pk: tuple(facts[pk]) for pk in services}


def _record_views(services: Collection[int]) -> None:
    """Record each minute that the dashboards of these services are open: sync reads more of them."""
    global _recorded_at
    if time.monotonic() > _recorded_at + RECORD_INTERVAL.total_seconds():
        _recorded_at = time.monotonic()
        record_watched_services(services, get_database_time())


DASHBOARD_SOURCE: Final = TopicSource(
    "service-dashboards",
    topics={"service-dashboard": audience_of_rows(Service, VIEW_SERVICE)},
    read_snapshots=read_dashboard_snapshots,
    reads_watched_keys=True,
    poll_seconds=SCAN_INTERVAL_SECONDS,
)
