"""Tells who made an ECS service grow: an execution that set its count, auto scaling, or somebody else.

ECS names the deployment of each task, and a count that is set later makes no other deployment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q

from deployments.models import Call, Execution, SlotClaim
from inventory.models.instances import SeenEvent, SeenService, ServiceInstance, SyncedCluster
from inventory.sync import lacking
from inventory.sync.owning import keys_of
from steps.states import CallState

Origin, Kind = ServiceInstance.Origin, SeenEvent.Kind
# ECS starts tasks a moment after the desired count was set, or later where it finds no room at once.
STARTS_WITHIN: Final = timedelta(minutes=3)
_CLOCKS_DIFFER: Final = timedelta(seconds=5)
# A look after the first one knows the tasks of before; AWS tells what scaled six weeks long.
_AT_FIRST: Final = timedelta(days=14)
_SETS: Final = "UpdateService"
_HAPPENED: Final = (CallState.SENT, CallState.ANSWERED, CallState.UNKNOWN)


@dataclass(frozen=True)
class CountSet:
    """A desired count that somebody set: of which service, when at the earliest and the latest, and who."""

    seen: int
    since: datetime
    at: datetime
    count: int
    origin: str
    execution: UUID | None = None
    who: str = ""

    def may_have_started(self, task: ServiceInstance) -> bool:
        return task.seen_id == self.seen and self.since <= task.created_at <= self.at + STARTS_WITHIN


def unexplained(cluster: SyncedCluster, now: datetime, *narrower: Q) -> list[ServiceInstance]:
    """Tasks, new since the last look, that no deployment under way started."""
    rows = ServiceInstance.objects.filter(
        *narrower,
        cluster=cluster,
        created_at__gt=_last_look(cluster, now) - STARTS_WITHIN,
        seen__isnull=False,
        origin__in=(Origin.REPLACED, Origin.OUTSIDE),
    )
    # A large cluster has thousands at its first look.
    light = rows.select_related("seen").defer("containers", "seen__answered", "seen__targets", "seen__usage")
    return list(light.order_by("created_at", "pk"))


def _last_look(cluster: SyncedCluster, now: datetime) -> datetime:
    """When the last whole look at a cluster began."""
    if cluster.synced_at is None:
        return now - _AT_FIRST
    return cluster.synced_at - timedelta(seconds=cluster.seconds or 0)


def changed_counts(cluster: SyncedCluster, now: datetime) -> list[SeenEvent]:
    """The counts that changed since the last look; what that one found is told already."""
    found_before = cluster.synced_at or now - _AT_FIRST
    rows = SeenEvent.objects.filter(seen__cluster=cluster, kind=Kind.COUNT, at__gt=found_before)
    return list(rows.select_related("seen").defer("seen__answered").order_by("at", "pk"))


def tell_who_scaled(cluster: SyncedCluster, now: datetime) -> None:
    """Say of new tasks, and of counts that changed, who set the count that they come of."""
    since = _last_look(cluster, now)
    changes = changed_counts(cluster, now)
    tasks = unexplained(cluster, now)
    services = {one.seen_id: one.seen for one in changes}
    services |= {one.seen.pk: one.seen for one in tasks if one.seen}
    if not services:
        return
    earliest = since - STARTS_WITHIN
    known = [*_by_executions(cluster, services.values(), earliest), *_by_auto_scaling(services, earliest)]
    known.sort(key=lambda one: one.at)
    for one in known:
        tasks = _mark(one, tasks)
    for event in changes:
        _tell(event, known, cluster)
        tasks = _mark(_by_somebody(event, known, cluster, since), tasks)


def _by_executions(
    cluster: SyncedCluster, services: Iterable[SeenService], since: datetime
) -> list[CountSet]:
    """The counts that executions set, as their journals have it; two queries."""
    by_name = {one.name: one.pk for one in services}
    lately = Q(stage__execution__ended_at=None) | Q(stage__execution__ended_at__gt=since)
    claims = SlotClaim.objects.filter(lately, key__in=keys_of(cluster, by_name))
    executions = set(claims.values_list("stage__execution", flat=True))
    rows = Call.objects.filter(
        execution__in=executions, operation=_SETS, state__in=_HAPPENED, sent_at__gt=since
    )
    found = rows.select_related("execution__pipeline").defer("parameters", "result")
    return [one for call in found.order_by("sent_at", "pk") if (one := _set_by(call, by_name))]


def _set_by(call: Call, by_name: dict[str, int]) -> CountSet | None:
    seen = by_name.get(str(call.preview.get("service", "")).rpartition("/")[2])
    count, at = call.preview.get("desiredCount"), call.sent_at
    if seen is None or at is None or not isinstance(count, int):
        return None
    who, execution = _name_of(call.execution), call.execution_id
    return CountSet(seen, at - _CLOCKS_DIFFER, at, count, Origin.EXECUTION, execution, who)


def _name_of(execution: Execution) -> str:
    return f"by {execution.pipeline.name} #{execution.number}"


def _by_auto_scaling(services: Iterable[int | None], since: datetime) -> list[CountSet]:
    rows = SeenEvent.objects.filter(
        seen__in=list(services), kind=Kind.SCALING, count__isnull=False, at__gt=since
    )
    return [
        CountSet(
            one.seen_id,
            one.at - _CLOCKS_DIFFER,
            one.at,
            one.count or 0,
            Origin.AUTO_SCALED,
            who="by auto scaling",
        )
        for one in rows.order_by("at", "pk")
    ]


def _by_somebody(
    event: SeenEvent, known: Sequence[CountSet], cluster: SyncedCluster, since: datetime
) -> CountSet | None:
    """A change of which no execution and no auto scaling knows, at some moment since the last look."""
    if _explained(event, known) or _may_be_auto_scaling(event, cluster):
        return None
    return CountSet(event.seen_id, since, event.at, event.count or 0, Origin.OUTSIDE)


def _explained(event: SeenEvent, known: Sequence[CountSet]) -> CountSet | None:
    """The last of those that set the count which was found."""
    mine = [one for one in known if one.seen == event.seen_id and one.count == event.count]
    return mine[-1] if mine else None


def _may_be_auto_scaling(event: SeenEvent, cluster: SyncedCluster) -> bool:
    """Whether auto scaling may have done it unseen."""
    if event.seen.scaling is None:
        return True
    is_kept_back = lacking.names(cluster.lacking, "DescribeScalingActivities")
    return bool(event.seen.scaling.get("max")) and is_kept_back


def _tell(event: SeenEvent, known: Sequence[CountSet], cluster: SyncedCluster) -> None:
    found = _explained(event, known)
    if found is None and _may_be_auto_scaling(event, cluster):
        return
    who = found.who if found else "outside Slipway"
    SeenEvent.objects.filter(pk=event.pk).update(message=f"{event.message.rstrip('.')}, set {who}.")


def _mark(one: CountSet | None, tasks: Sequence[ServiceInstance]) -> list[ServiceInstance]:
    """Mark as many as the count grew by; what came beyond that replaced another. Answers with the rest."""
    mine = [task for task in tasks if one is not None and one.may_have_started(task)]
    if one is None or not mine:
        return list(tasks)
    of_it = ServiceInstance.objects.filter(seen=one.seen)
    before = of_it.filter(created_at__lt=one.since)
    ran = before.filter(Q(stopped_at=None) | Q(stopped_at__gt=one.at)).count()
    since = of_it.filter(created_at__gte=one.since, created_at__lte=one.at + STARTS_WITHIN)
    known = since.filter(_others(one)).count()
    marked = {task.pk for task in mine[: max(0, one.count - ran - known)]}
    changes: dict[str, object] = {"origin": one.origin}
    if one.origin != Origin.AUTO_SCALED:
        changes["execution"] = one.execution
    ServiceInstance.objects.filter(pk__in=marked).update(**changes)
    return [task for task in tasks if task.pk not in marked]


def _others(one: CountSet) -> Q:
    """Those that count as started by it, or of which another is known to have started them."""
    if one.origin == Origin.OUTSIDE:
        return ~Q(origin=Origin.REPLACED)
    mine = Q(origin=one.origin)
    return mine & Q(execution=one.execution) if one.execution else mine
