"""Running ECS services of a service, with their tasks by version."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Count

from catalog.models import Service
from inventory.dashboards.target_groups import DashboardTargetGroup, build_target_group, get_target_tasks
from inventory.dashboards.task_map import TaskMapZone, load_drawn_tasks
from inventory.dashboards.usage import ServiceUsage, get_usage
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync import denied_reads
from inventory.sync.upserts.target_health import list_target_groups
from rbac.policy import Principal, filter_visible

VIEW_ENVIRONMENT: Final = "core_environment_view"
# ECS services of one service that a page lists.
MAX_ECS_SERVICES: Final = 50
SHORT_DIGEST_LENGTH: Final = 12
# What a sync of another cluster may have been told.
USAGE_OPERATION: Final = "GetMetricData"


VersionKey = tuple[int, str, str, str]


@dataclass(frozen=True)
class RunningVersion:
    """Tasks of one image and one revision of a task definition."""

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
    """One ECS service: what its tasks run, the largest part first, and its tasks by zone."""

    ecs_service: EcsServiceRecord
    versions: list[RunningVersion] = field(default_factory=list)
    zones: list[TaskMapZone] = field(default_factory=list)
    # The ids of tasks by the targets that are not healthy.
    tasks: Mapping[str, str] = field(default_factory=dict)

    @property
    def running(self) -> int:
        return sum(one.count for one in self.versions)

    @property
    def drawn(self) -> int:
        return sum(len(zone.drawn) for zone in self.zones)

    @property
    def version(self) -> str:
        """The version that most tasks run."""
        return self.versions[0].tag if self.versions else ""

    @property
    def revision(self) -> str:
        return format_revision(self.ecs_service.task_definition)

    @property
    def deployments(self) -> list[Mapping[str, Any]]:
        """The deployments as ECS told them, the newest first."""
        told = self.ecs_service.description.get("deployments")
        return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []

    @property
    def target_groups(self) -> list[DashboardTargetGroup]:
        """The target groups that its tasks register with: as they were last read, or only by their ARN."""
        known = {one["arn"]: one for one in self.ecs_service.targets}
        return [
            build_target_group(arn, known.get(arn, {}), self.tasks)
            for arn in list_target_groups(self.ecs_service)
        ]

    @property
    def usage(self) -> ServiceUsage | None:
        """CPU and memory over the last hours; None as long as nobody has read them."""
        return get_usage(self.ecs_service)

    @property
    def drift(self) -> DriftComparison | None:
        """How it compares with what was deployed to it last; None: never looked at."""
        return getattr(self.ecs_service, "comparison", None)

    @property
    def denied_reads(self) -> dict[str, Mapping[str, Any]]:
        """By operation what AWS keeps back: the "action" that is missing, the "principal" that lacks it."""
        found = {str(one.get("operation")): one for one in self.ecs_service.cluster.denied_reads}
        if denied_reads.is_read_since(found.get(USAGE_OPERATION), self.ecs_service.usage_read_at):
            del found[USAGE_OPERATION]
        return found


def format_version(image: str, digest: str) -> str:
    """What people call an image's version: its tag, else the beginning of its digest."""
    name = image.rsplit("/", 1)[-1]
    if "@" not in name and ":" in name:
        return name.rsplit(":", 1)[1]
    told = digest or image.partition("@")[2]
    return told.removeprefix("sha256:")[:SHORT_DIGEST_LENGTH] or "latest"


def format_revision(task_definition: str) -> str:
    """The family and revision of a task definition's ARN."""
    return task_definition.rsplit("/", 1)[-1]


def list_running_services(
    principal: Principal,
    services: Sequence[Service],
    *,
    most: int = MAX_ECS_SERVICES,
    detailed: bool = False,
    drawn: bool = False,
) -> list[RunningService]:
    """The ECS services of services, where the reader may see them; two queries, one more with tasks drawn.

    Only in detail they tell of targets and of CPU and memory; one more query where targets are not healthy.
    """
    rows = EcsServiceRecord.objects.filter(service__in=services, gone_at=None).select_related(
        "infrastructure__environment__scope", "cluster"
    )
    kinds = ("infrastructure__environment__kind", "infrastructure__environment__name", "cluster_id", "name")
    rows = rows.select_related("comparison")
    rows = rows if detailed else rows.defer("usage", "targets", "description")
    found = filter_visible(principal, VIEW_ENVIRONMENT, rows).order_by(*kinds)[:most]
    places = {one.pk: RunningService(one) for one in found}
    _count_tasks(places, by_zone=drawn)
    if detailed:
        for pk, tasks in get_target_tasks(found).items():
            places[pk].tasks = tasks
    if drawn:
        load_drawn_tasks({pk: {zone.name: zone for zone in place.zones} for pk, place in places.items()})
    return list(places.values())


def _count_tasks(places: Mapping[int, RunningService], *, by_zone: bool) -> None:
    """Count the tasks of each place by version, and by zone for a map; one query."""
    columns = ("ecs_service_id", "image", "digest", "task_definition")
    looks = ("zone", "last_status", "health") if by_zone else ()
    live = ServiceInstance.objects.filter(ecs_service__in=list(places), stopped_at=None).order_by()
    versions: Counter[VersionKey] = Counter()
    zones: defaultdict[int, dict[str, TaskMapZone]] = defaultdict(dict)
    for pk, image, digest, definition, *look, number in live.values_list(*columns, *looks).annotate(
        count=Count("pk")
    ):
        versions[pk, image, digest, definition] += number
        if look:
            zone = zones[pk].setdefault(look[0], TaskMapZone(look[0]))
            is_old = definition != places[pk].ecs_service.task_definition
            zone.count(number, status=look[1], health=look[2], is_old=is_old)
    _merge_pulling_tasks(versions)
    ranked = sorted(versions.items(), key=lambda one: (-one[1], *one[0][1:]))
    for (pk, image, digest, definition), number in ranked:
        places[pk].versions.append(RunningVersion(image, digest, definition, number))
    for pk, named in zones.items():
        places[pk].zones = [named[name] for name in sorted(named)]


def _merge_pulling_tasks(versions: Counter[VersionKey]) -> None:
    """Count tasks that have pulled no image yet to the only digest that others of the same revision run."""
    digests: defaultdict[tuple[int, str, str], set[str]] = defaultdict(set)
    for pk, image, digest, definition in versions:
        digests[pk, image, definition].add(digest)
    for (pk, image, definition), found in digests.items():
        if "" in found and len(found) == 2:
            known = next(filter(None, found))
            versions[pk, image, known, definition] += versions.pop((pk, image, "", definition))
