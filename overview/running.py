"""What runs of services, and where: ECS services with their tasks by version."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber

from deployments.models import Service
from drift.models import Comparison
from instances.keeping.health import groups_of
from instances.models import SeenService, ServiceInstance
from overview.usage import Usage, usage_of
from rbac.policy import Principal, visible_to

VIEW_ENVIRONMENT: Final = "core_environment_view"
# ECS services of one service that a page lists, and tasks of each that it draws.
MOST_PLACES: Final = 50
MOST_DRAWN: Final = 120
SHORT_DIGEST: Final = 12


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
    """One ECS service: what its tasks run, the largest part first, and some of the tasks by zone."""

    seen: SeenService
    versions: list[Version] = field(default_factory=list)
    zones: dict[str, list[ServiceInstance]] = field(default_factory=dict)

    @property
    def running(self) -> int:
        return sum(one.count for one in self.versions)

    @property
    def drawn(self) -> int:
        return sum(len(tasks) for tasks in self.zones.values())

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
    def target_groups(self) -> list[Mapping[str, Any]]:
        """The target groups that its tasks register with: as they were last read, or only by their ARN."""
        known = {one["arn"]: one for one in self.seen.targets}
        return [known.get(arn, {"arn": arn, "name": arn.split("/")[1]}) for arn in groups_of(self.seen)]

    @property
    def usage(self) -> Usage | None:
        """CPU and memory over the last hours; None as long as nobody has read them."""
        return usage_of(self.seen)

    @property
    def drift(self) -> Comparison | None:
        """How it compares with what was deployed to it last; None: never looked at."""
        return getattr(self.seen, "comparison", None)

    @property
    def kept_back(self) -> dict[str, str]:
        """What AWS keeps back of the picture: the IAM action that is missing, by operation."""
        return {str(one.get("operation")): str(one.get("action")) for one in self.seen.cluster.lacking}


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
    principal: Principal, services: Sequence[Service], *, most: int = MOST_PLACES, drawn: bool = False
) -> list[Place]:
    """The ECS services of services, where the reader may see them; two queries, three with tasks."""
    rows = SeenService.objects.filter(service__in=services, gone_at=None).select_related(
        "infrastructure__environment__scope", "cluster"
    )
    kinds = ("infrastructure__environment__kind", "infrastructure__environment__name", "cluster_id", "name")
    rows = rows.select_related("comparison")
    rows = rows if drawn else rows.defer("usage")
    found = visible_to(principal, VIEW_ENVIRONMENT, rows).order_by(*kinds)[:most]
    places = {one.pk: Place(one) for one in found}
    for pk, version in _versions(places):
        places[pk].versions.append(version)
    if drawn:
        _draw(places)
    return list(places.values())


def _live(seen: Iterable[int]) -> QuerySet[ServiceInstance]:
    return ServiceInstance.objects.filter(seen__in=list(seen), stopped_at=None)


def _versions(seen: Iterable[int]) -> Iterable[tuple[int, Version]]:
    columns = ("seen_id", "image", "digest", "task_definition")
    counted = _live(seen).order_by().values_list(*columns).annotate(count=Count("pk"))
    for pk, image, digest, definition, count in sorted(
        counted, key=lambda row: (-row[4], *map(str, row[1:4]))
    ):
        yield pk, Version(image, digest, definition, count)


def _draw(places: Mapping[int, Place]) -> None:
    """Put the newest tasks of each place into their zones."""
    rank = Window(RowNumber(), partition_by="seen_id", order_by=("-created_at", "-pk"))
    columns = ("task_id", "seen", "last_status", "health", "zone", "task_definition", "image", "digest")
    rows = _live(places).annotate(rank=rank).filter(rank__lte=MOST_DRAWN).only(*columns, "created_at")
    zones: dict[int, defaultdict[str, list[ServiceInstance]]] = defaultdict(lambda: defaultdict(list))
    for one in rows.order_by(F("zone"), "created_at", "pk"):
        zones[one.seen_id or 0][one.zone].append(one)
    for pk, place in places.items():
        place.zones = dict(zones[pk])
