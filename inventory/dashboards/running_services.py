"""Running ECS services of a service, with their tasks by version."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Case, Count, F, Q, Value, When, Window
from django.db.models.functions import RowNumber

from catalog.models import Service
from inventory.dashboards.target_groups import DashboardTargetGroup, build_target_group, get_target_tasks
from inventory.dashboards.usage import ServiceUsage, get_usage
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync import denied_reads
from inventory.sync.upserts.target_health import list_target_groups
from rbac.policy import Principal, filter_visible, get_permissions_over_scope

# The limits of drawn tasks for each ECS service and for a page.
MAX_DRAWN_PER_SERVICE: Final = 120
MAX_DRAWN_TASKS: Final = 600
MIN_DRAWN_PER_SERVICE: Final = 12
RUNNING: Final = "RUNNING"
UNHEALTHY_STATUS: Final = "UNHEALTHY"
UNHEALTHY: Final = Q(stopped_at=None, last_status=RUNNING, health=UNHEALTHY_STATUS)


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


VIEW_ENVIRONMENT: Final = "core_environment_view"
# ECS services of one service that a page lists.
MAX_ECS_SERVICES: Final = 50
SHORT_DIGEST_LENGTH: Final = 12
# A sync of another cluster may read it as well.
USAGE_OPERATION: Final = "GetMetricData"


VersionKey = tuple[int, str, str, str]


def can_see_every_environment(principal: Principal, services: Iterable[Service]) -> bool:
    """Return whether the reader may view all environments to which these services can be deployed."""
    scopes = {service.scope_id: service.scope for service in services}
    return all(VIEW_ENVIRONMENT in get_permissions_over_scope(principal, scope) for scope in scopes.values())


@dataclass(frozen=True)
class RunningVersion:
    """The tasks of one image and task definition revision."""

    image: str
    digest: str
    task_definition: str
    count: int

    @property
    def tag(self) -> str:
        return format_version(self.image, self.digest)

    @property
    def revision(self) -> str:
        return format_revision(self.task_definition)


@dataclass
class RunningService:
    """An ECS service with its versions, the most frequent first, and its tasks by zone."""

    ecs_service: EcsServiceRecord
    versions: list[RunningVersion] = field(default_factory=list)
    zones: list[TaskMapZone] = field(default_factory=list)
    unhealthy_tasks: int = 0
    # Task ids by unhealthy target.
    tasks: Mapping[str, str] = field(default_factory=dict)

    @property
    def running(self) -> int:
        return sum(version.count for version in self.versions)

    @property
    def drawn(self) -> int:
        return sum(len(zone.drawn) for zone in self.zones)

    @property
    def version(self) -> str:
        """Return the version that most tasks run."""
        return self.versions[0].tag if self.versions else ""

    @property
    def revision(self) -> str:
        return format_revision(self.ecs_service.task_definition)

    @property
    def deployments(self) -> list[Mapping[str, Any]]:
        """Return the deployments as ECS returned them, the newest first."""
        rows = self.ecs_service.description.get("deployments")
        return (
            [deployment for deployment in rows if isinstance(deployment, Mapping)]
            if isinstance(rows, list)
            else []
        )

    @property
    def target_groups(self) -> list[DashboardTargetGroup]:
        """Return the target groups of the service as last read; an unread one has only its ARN."""
        by_arn = {target_group["arn"]: target_group for target_group in self.ecs_service.targets}
        return [
            build_target_group(arn, by_arn.get(arn, {}), self.tasks)
            for arn in list_target_groups(self.ecs_service)
        ]

    @property
    def usage(self) -> ServiceUsage | None:
        """Return CPU and memory of the last hours; None until they are read."""
        return get_usage(self.ecs_service)

    @property
    def drift(self) -> DriftComparison | None:
        """Return the comparison with the last deployment; None before the first scan."""
        return getattr(self.ecs_service, "comparison", None)

    @property
    def denied_reads(self) -> dict[str, Mapping[str, Any]]:
        """Return the denied reads by operation, with the missing "action" and the "principal"."""
        by_operation = {str(entry.get("operation")): entry for entry in self.ecs_service.cluster.denied_reads}
        if denied_reads.is_read_since(by_operation.get(USAGE_OPERATION), self.ecs_service.usage_read_at):
            del by_operation[USAGE_OPERATION]
        return by_operation


def format_version(image: str, digest: str) -> str:
    """Return the version of an image: its tag, or the start of its digest."""
    name = image.rsplit("/", 1)[-1]
    if "@" not in name and ":" in name:
        return name.rsplit(":", 1)[1]
    full_digest = digest or image.partition("@")[2]
    return full_digest.removeprefix("sha256:")[:SHORT_DIGEST_LENGTH] or "latest"


def format_revision(task_definition: str) -> str:
    """Return family and revision of a task definition ARN."""
    return task_definition.rsplit("/", 1)[-1]


# What lists and their API show of an ECS service; another column would be a query for each row.
LIST_COLUMNS = (
    "service",
    "name",
    "desired",
    "running",
    "pending",
    "task_definition",
    "scaling",
    "seen_at",
    "cluster__account",
    "cluster__region",
    "cluster__cluster",
    "cluster__synced_at",
    "comparison__state",
    "comparison__reason",
    "comparison__compared_at",
    "infrastructure__identifier",
    "infrastructure__environment__name",
    "infrastructure__environment__identifier",
    "infrastructure__environment__kind",
)


def list_running_services(
    principal: Principal,
    services: Sequence[Service],
    *,
    limit: int = MAX_ECS_SERVICES,
    detailed: bool = False,
    drawn: bool = False,
) -> list[RunningService]:
    """Return the visible ECS services of these services; two queries, three with tasks drawn.

    Only `detailed` loads targets and usage, with one more query for unhealthy targets.
    """
    rows = EcsServiceRecord.objects.filter(service__in=services, gone_at=None).select_related(
        "infrastructure__environment", "cluster", "comparison"
    )
    kinds = ("infrastructure__environment__kind", "infrastructure__environment__name", "cluster_id", "name")
    rows = rows.select_related("infrastructure__environment__scope") if detailed else rows.only(*LIST_COLUMNS)
    ecs_services = filter_visible(principal, VIEW_ENVIRONMENT, rows).order_by(*kinds)[:limit]
    running_services = {ecs_service.pk: RunningService(ecs_service) for ecs_service in ecs_services}
    _count_tasks(running_services, by_zone=drawn)
    if detailed:
        for pk, tasks in get_target_tasks(ecs_services).items():
            running_services[pk].tasks = tasks
    if drawn:
        load_drawn_tasks(
            {
                pk: {zone.name: zone for zone in running_service.zones}
                for pk, running_service in running_services.items()
            }
        )
    return list(running_services.values())


def _count_tasks(running_services: Mapping[int, RunningService], *, by_zone: bool) -> None:
    """Count the tasks by version, the unhealthy ones, and those by zone for a map; one query."""
    columns = ("ecs_service_id", "image", "digest", "task_definition")
    zone_columns = ("zone", "last_status", "health") if by_zone else ()
    live = ServiceInstance.objects.filter(ecs_service__in=list(running_services), stopped_at=None).order_by()
    versions: Counter[VersionKey] = Counter()
    zones: defaultdict[int, dict[str, TaskMapZone]] = defaultdict(dict)
    unhealthy = Count("pk", filter=UNHEALTHY)
    for pk, image, digest, definition, *zone_values, number, unhealthy_number in live.values_list(
        *columns, *zone_columns
    ).annotate(count=Count("pk"), unhealthy=unhealthy):
        versions[pk, image, digest, definition] += number
        running_services[pk].unhealthy_tasks += unhealthy_number
        if zone_values:
            zone = zones[pk].setdefault(zone_values[0], TaskMapZone(zone_values[0]))
            is_old = definition != running_services[pk].ecs_service.task_definition
            zone.count(number, status=zone_values[1], health=zone_values[2], is_old=is_old)
    _merge_pulling_tasks(versions)
    ranked = sorted(versions.items(), key=lambda item: (-item[1], *item[0][1:]))
    for (pk, image, digest, definition), number in ranked:
        running_services[pk].versions.append(RunningVersion(image, digest, definition, number))
    for pk, by_name in zones.items():
        running_services[pk].zones = [by_name[name] for name in sorted(by_name)]


def _merge_pulling_tasks(versions: Counter[VersionKey]) -> None:
    """Count tasks without a pulled image as the only known version of their revision."""
    digests: defaultdict[tuple[int, str, str], set[str]] = defaultdict(set)
    for pk, image, digest, definition in versions:
        digests[pk, image, definition].add(digest)
    for (pk, image, definition), known_digests in digests.items():
        if "" in known_digests and len(known_digests) == 2:
            pulled_digest = next(filter(None, known_digests))
            versions[pk, image, pulled_digest, definition] += versions.pop((pk, image, "", definition))
