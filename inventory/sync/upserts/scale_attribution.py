"""Attribution of desired count changes to an execution, auto scaling, or somebody else.

ECS names the deployment of each task, and a count that is set later makes no other deployment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q

from deployments.models import AwsCall, Execution, ServiceLockClaim
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync import denied_reads
from inventory.sync.owners import list_lock_keys
from steps.states import CallState

Origin, Kind = ServiceInstance.Origin, EcsServiceEvent.Kind
# ECS starts tasks a moment after the desired count was set, or later where it finds no room at once.
TASK_START_WINDOW: Final = timedelta(minutes=3)
_CLOCK_TOLERANCE: Final = timedelta(seconds=5)
# A look after the first one knows the tasks of before; AWS tells what scaled six weeks long.
_FIRST_SCAN_WINDOW: Final = timedelta(days=14)
_UPDATE_OPERATION: Final = "UpdateService"
_SENT_STATES: Final = (CallState.SENT, CallState.ANSWERED, CallState.UNKNOWN)


@dataclass(frozen=True)
class DesiredCountChange:
    """A desired count that somebody set: of which service, when at the earliest and the latest, and who."""

    ecs_service_id: int
    since: datetime
    at: datetime
    count: int
    origin: str
    execution: UUID | None = None
    author: str = ""

    def may_have_started(self, task: ServiceInstance) -> bool:
        return (
            task.ecs_service_id == self.ecs_service_id
            and self.since <= task.created_at <= self.at + TASK_START_WINDOW
        )


def list_unexplained_tasks(cluster: SyncedCluster, now: datetime, *narrower: Q) -> list[ServiceInstance]:
    """Tasks, new since the last look, that no deployment under way started."""
    rows = ServiceInstance.objects.filter(
        *narrower,
        cluster=cluster,
        created_at__gt=_get_last_scan_start(cluster, now) - TASK_START_WINDOW,
        ecs_service__isnull=False,
        origin__in=(Origin.REPLACED, Origin.OUTSIDE),
    )
    # A large cluster has thousands at its first look.
    light = rows.select_related("ecs_service").defer(
        "containers", "ecs_service__description", "ecs_service__targets", "ecs_service__usage"
    )
    return list(light.order_by("created_at", "pk"))


def _get_last_scan_start(cluster: SyncedCluster, now: datetime) -> datetime:
    """When the last whole look at a cluster began."""
    if cluster.synced_at is None:
        return now - _FIRST_SCAN_WINDOW
    return cluster.synced_at - timedelta(seconds=cluster.seconds or 0)


def list_changed_counts(cluster: SyncedCluster, now: datetime) -> list[EcsServiceEvent]:
    """The counts that changed since the last look; what that one found is told already."""
    found_before = cluster.synced_at or now - _FIRST_SCAN_WINDOW
    rows = EcsServiceEvent.objects.filter(ecs_service__cluster=cluster, kind=Kind.COUNT, at__gt=found_before)
    return list(rows.select_related("ecs_service").defer("ecs_service__description").order_by("at", "pk"))


def attribute_scaling(cluster: SyncedCluster, now: datetime) -> None:
    """Say of new tasks, and of counts that changed, who set the count that they come of."""
    since = _get_last_scan_start(cluster, now)
    changes = list_changed_counts(cluster, now)
    tasks = list_unexplained_tasks(cluster, now)
    services = {one.ecs_service_id: one.ecs_service for one in changes}
    services |= {one.ecs_service.pk: one.ecs_service for one in tasks if one.ecs_service}
    if not services:
        return
    earliest = since - TASK_START_WINDOW
    known = [
        *_list_execution_changes(cluster, services.values(), earliest),
        *_list_auto_scaling_changes(services, earliest),
    ]
    known.sort(key=lambda one: one.at)
    for one in known:
        tasks = _mark_tasks(one, tasks)
    for event in changes:
        _write_attribution(event, known, cluster)
        tasks = _mark_tasks(_build_outside_change(event, known, cluster, since), tasks)


def _list_execution_changes(
    cluster: SyncedCluster, services: Iterable[EcsServiceRecord], since: datetime
) -> list[DesiredCountChange]:
    """The counts that executions set, as their journals have it; two queries."""
    by_name = {one.name: one.pk for one in services}
    lately = Q(stage__execution__ended_at=None) | Q(stage__execution__ended_at__gt=since)
    claims = ServiceLockClaim.objects.filter(lately, key__in=list_lock_keys(cluster, by_name))
    executions = set(claims.values_list("stage__execution", flat=True))
    rows = AwsCall.objects.filter(
        execution__in=executions, operation=_UPDATE_OPERATION, state__in=_SENT_STATES, sent_at__gt=since
    )
    found = rows.select_related("execution__pipeline").defer("parameters", "result")
    return [one for call in found.order_by("sent_at", "pk") if (one := _parse_count_change(call, by_name))]


def _parse_count_change(call: AwsCall, by_name: dict[str, int]) -> DesiredCountChange | None:
    seen = by_name.get(str(call.preview.get("service", "")).rpartition("/")[2])
    count, at = call.preview.get("desiredCount"), call.sent_at
    if seen is None or at is None or not isinstance(count, int):
        return None
    who, execution = _format_execution_name(call.execution), call.execution_id
    return DesiredCountChange(seen, at - _CLOCK_TOLERANCE, at, count, Origin.EXECUTION, execution, who)


def _format_execution_name(execution: Execution) -> str:
    return f"by {execution.pipeline.name} #{execution.number}"


def _list_auto_scaling_changes(services: Iterable[int | None], since: datetime) -> list[DesiredCountChange]:
    rows = EcsServiceEvent.objects.filter(
        ecs_service__in=list(services), kind=Kind.SCALING, count__isnull=False, at__gt=since
    )
    return [
        DesiredCountChange(
            one.ecs_service_id,
            one.at - _CLOCK_TOLERANCE,
            one.at,
            one.count or 0,
            Origin.AUTO_SCALED,
            author="by auto scaling",
        )
        for one in rows.order_by("at", "pk")
    ]


def _build_outside_change(
    event: EcsServiceEvent, known: Sequence[DesiredCountChange], cluster: SyncedCluster, since: datetime
) -> DesiredCountChange | None:
    """A change of which no execution and no auto scaling knows, at some moment since the last look."""
    if _find_count_change(event, known) or _is_possibly_auto_scaling(event, cluster):
        return None
    return DesiredCountChange(event.ecs_service_id, since, event.at, event.count or 0, Origin.OUTSIDE)


def _find_count_change(
    event: EcsServiceEvent, known: Sequence[DesiredCountChange]
) -> DesiredCountChange | None:
    """The last of those that set the count which was found."""
    mine = [one for one in known if one.ecs_service_id == event.ecs_service_id and one.count == event.count]
    return mine[-1] if mine else None


def _is_possibly_auto_scaling(event: EcsServiceEvent, cluster: SyncedCluster) -> bool:
    """Whether auto scaling may have done it unseen."""
    if event.ecs_service.scaling is None:
        return True
    is_kept_back = denied_reads.is_operation_denied(cluster.denied_reads, "DescribeScalingActivities")
    return bool(event.ecs_service.scaling.get("max")) and is_kept_back


def _write_attribution(
    event: EcsServiceEvent, known: Sequence[DesiredCountChange], cluster: SyncedCluster
) -> None:
    found = _find_count_change(event, known)
    if found is None and _is_possibly_auto_scaling(event, cluster):
        return
    who = found.author if found else "outside Slipway"
    EcsServiceEvent.objects.filter(pk=event.pk).update(message=f"{event.message.rstrip('.')}, set {who}.")


def _mark_tasks(one: DesiredCountChange | None, tasks: Sequence[ServiceInstance]) -> list[ServiceInstance]:
    """Mark as many as the count grew by; what came beyond that replaced another. Answers with the rest."""
    mine = [task for task in tasks if one is not None and one.may_have_started(task)]
    if one is None or not mine:
        return list(tasks)
    of_it = ServiceInstance.objects.filter(ecs_service=one.ecs_service_id)
    before = of_it.filter(created_at__lt=one.since)
    ran = before.filter(Q(stopped_at=None) | Q(stopped_at__gt=one.at)).count()
    since = of_it.filter(created_at__gte=one.since, created_at__lte=one.at + TASK_START_WINDOW)
    known = since.filter(_filter_attributed_tasks(one)).count()
    marked = {task.pk for task in mine[: max(0, one.count - ran - known)]}
    changes: dict[str, object] = {"origin": one.origin}
    if one.origin != Origin.AUTO_SCALED:
        changes["execution"] = one.execution
    ServiceInstance.objects.filter(pk__in=marked).update(**changes)
    return [task for task in tasks if task.pk not in marked]


def _filter_attributed_tasks(one: DesiredCountChange) -> Q:
    """Those that count as started by it, or of which another is known to have started them."""
    if one.origin == Origin.OUTSIDE:
        return ~Q(origin=Origin.REPLACED)
    mine = Q(origin=one.origin)
    return mine & Q(execution=one.execution) if one.execution else mine
