"""What runs of services, and where: ECS services with their tasks by version."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Count

from catalog.models import Service
from inventory.dashboards.targets import TargetGroup, target_group, tasks_behind
from inventory.dashboards.task_map import Zone, draw
from inventory.dashboards.usage import Usage, usage_of
from inventory.models.drift import Comparison
from inventory.models.instances import SeenService, ServiceInstance
from inventory.sync import lacking
from inventory.sync.keeping.health import groups_of
from rbac.policy import Principal, visible_to

VIEW_ENVIRONMENT: Final = "core_environment_view"
# ECS services of one service that a page lists.
MOST_PLACES: Final = 50
SHORT_DIGEST: Final = 12
# What a sync of another cluster may have been told.
USAGE: Final = "GetMetricData"


Key = tuple[int, str, str, str]


@dataclass(frozen=True)
class Version:
    """Tasks of one image and one revision of a task definition."""

    image: str
    digest: str
    task_definition: str
    count: int

    @property
    def tag(self) -> str:
        return version_of(self.image, self.digest)

    @property
    def revision(self) -> str:
        return revision_of(self.task_definition)


@dataclass
class Place:
    """One ECS service: what its tasks run, the largest part first, and its tasks by zone."""

    seen: SeenService
    versions: list[Version] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)
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
        return revision_of(self.seen.task_definition)

    @property
    def deployments(self) -> list[Mapping[str, Any]]:
        """The deployments as ECS told them, the newest first."""
        told = self.seen.answered.get("deployments")
        return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []

    @property
    def target_groups(self) -> list[TargetGroup]:
        """The target groups that its tasks register with: as they were last read, or only by their ARN."""
        known = {one["arn"]: one for one in self.seen.targets}
        return [target_group(arn, known.get(arn, {}), self.tasks) for arn in groups_of(self.seen)]

    @property
    def usage(self) -> Usage | None:
        """CPU and memory over the last hours; None as long as nobody has read them."""
        return usage_of(self.seen)

    @property
    def drift(self) -> Comparison | None:
        """How it compares with what was deployed to it last; None: never looked at."""
        return getattr(self.seen, "comparison", None)

    @property
    def kept_back(self) -> dict[str, Mapping[str, Any]]:
        """By operation what AWS keeps back: the "action" that is missing, the "principal" that lacks it."""
        found = {str(one.get("operation")): one for one in self.seen.cluster.lacking}
        if lacking.was_told_since(found.get(USAGE), self.seen.usage_read_at):
            del found[USAGE]
        return found


def version_of(image: str, digest: str) -> str:
    """What people call an image's version: its tag, else the beginning of its digest."""
    name = image.rsplit("/", 1)[-1]
    if "@" not in name and ":" in name:
        return name.rsplit(":", 1)[1]
    told = digest or image.partition("@")[2]
    return told.removeprefix("sha256:")[:SHORT_DIGEST] or "latest"


def revision_of(task_definition: str) -> str:
    """The family and revision of a task definition's ARN."""
    return task_definition.rsplit("/", 1)[-1]


def places_of(
    principal: Principal,
    services: Sequence[Service],
    *,
    most: int = MOST_PLACES,
    detailed: bool = False,
    drawn: bool = False,
) -> list[Place]:
    """The ECS services of services, where the reader may see them; two queries, one more with tasks drawn.

    Only in detail they tell of targets and of CPU and memory; one more query where targets are not healthy.
    """
    rows = SeenService.objects.filter(service__in=services, gone_at=None).select_related(
        "infrastructure__environment__scope", "cluster"
    )
    kinds = ("infrastructure__environment__kind", "infrastructure__environment__name", "cluster_id", "name")
    rows = rows.select_related("comparison")
    rows = rows if detailed else rows.defer("usage", "targets", "answered")
    found = visible_to(principal, VIEW_ENVIRONMENT, rows).order_by(*kinds)[:most]
    places = {one.pk: Place(one) for one in found}
    _count(places, by_zone=drawn)
    if detailed:
        for pk, tasks in tasks_behind(found).items():
            places[pk].tasks = tasks
    if drawn:
        draw({pk: {zone.name: zone for zone in place.zones} for pk, place in places.items()})
    return list(places.values())


def _count(places: Mapping[int, Place], *, by_zone: bool) -> None:
    """Count the tasks of each place by version, and by zone for a map; one query."""
    columns = ("seen_id", "image", "digest", "task_definition")
    looks = ("zone", "last_status", "health") if by_zone else ()
    live = ServiceInstance.objects.filter(seen__in=list(places), stopped_at=None).order_by()
    versions: Counter[Key] = Counter()
    zones: defaultdict[int, dict[str, Zone]] = defaultdict(dict)
    for pk, image, digest, definition, *look, number in live.values_list(*columns, *looks).annotate(
        count=Count("pk")
    ):
        versions[pk, image, digest, definition] += number
        if look:
            zone = zones[pk].setdefault(look[0], Zone(look[0]))
            is_old = definition != places[pk].seen.task_definition
            zone.count(number, status=look[1], health=look[2], is_old=is_old)
    _join_what_pulls(versions)
    ranked = sorted(versions.items(), key=lambda one: (-one[1], *one[0][1:]))
    for (pk, image, digest, definition), number in ranked:
        places[pk].versions.append(Version(image, digest, definition, number))
    for pk, named in zones.items():
        places[pk].zones = [named[name] for name in sorted(named)]


def _join_what_pulls(versions: Counter[Key]) -> None:
    """Count tasks that have pulled no image yet to the only digest that others of the same revision run."""
    digests: defaultdict[tuple[int, str, str], set[str]] = defaultdict(set)
    for pk, image, digest, definition in versions:
        digests[pk, image, definition].add(digest)
    for (pk, image, definition), found in digests.items():
        if "" in found and len(found) == 2:
            known = next(filter(None, found))
            versions[pk, image, known, definition] += versions.pop((pk, image, "", definition))
