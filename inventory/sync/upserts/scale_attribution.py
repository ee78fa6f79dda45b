"""Attribution of desired count changes to executions, auto scaling or other causes.

ECS names the deployment of each task, but a later count change does not create a deployment.
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
# ECS starts tasks shortly after a count change, or later where capacity is short.
TASK_START_WINDOW: Final = timedelta(minutes=3)
_CLOCK_TOLERANCE: Final = timedelta(seconds=5)
# Range of the first sync; AWS stores scaling activities for six weeks.
_FIRST_SCAN_WINDOW: Final = timedelta(days=14)
_UPDATE_OPERATION: Final = "UpdateService"
_SENT_STATES: Final = (CallState.SENT, CallState.ANSWERED, CallState.UNKNOWN)


@dataclass(frozen=True)
class DesiredCountChange:
    """A change of a desired count: the service, the earliest and latest time, and the author."""

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


def list_unexplained_tasks(cluster: SyncedCluster, now: datetime, *conditions: Q) -> list[ServiceInstance]:
    """Return the new tasks that no running deployment started."""
    rows = ServiceInstance.objects.filter(
        *conditions,
        cluster=cluster,
        created_at__gt=_get_last_scan_start(cluster, now) - TASK_START_WINDOW,
        ecs_service__isnull=False,
        origin__in=(Origin.REPLACED, Origin.OUTSIDE),
    )
    # A large cluster has thousands in its first sync.
    deferred = rows.select_related("ecs_service").defer(
        "containers", "ecs_service__description", "ecs_service__targets", "ecs_service__usage"
    )
    return list(deferred.order_by("created_at", "pk"))


def _get_last_scan_start(cluster: SyncedCluster, now: datetime) -> datetime:
    """Return the start of the last whole sync."""
    if cluster.synced_at is None:
        return now - _FIRST_SCAN_WINDOW
    return cluster.synced_at - timedelta(seconds=cluster.seconds or 0)


def list_changed_counts(cluster: SyncedCluster, now: datetime) -> list[EcsServiceEvent]:
    """Return the count changes since the last sync."""
    since = cluster.synced_at or now - _FIRST_SCAN_WINDOW
    rows = EcsServiceEvent.objects.filter(ecs_service__cluster=cluster, kind=Kind.COUNT, at__gt=since)
    return list(rows.select_related("ecs_service").defer("ecs_service__description").order_by("at", "pk"))


def attribute_scaling(cluster: SyncedCluster, now: datetime) -> None:
    """Attribute new tasks and changed counts to the author of the count."""
    since = _get_last_scan_start(cluster, now)
    changes = list_changed_counts(cluster, now)
    tasks = list_unexplained_tasks(cluster, now)
    services = {item.ecs_service_id: item.ecs_service for item in changes}
    services |= {item.ecs_service.pk: item.ecs_service for item in tasks if item.ecs_service}
    if not services:
        return
    earliest = since - TASK_START_WINDOW
    known_changes = [
        *_list_execution_changes(cluster, services.values(), earliest),
        *_list_auto_scaling_changes(services, earliest),
    ]
    known_changes.sort(key=lambda item: item.at)
    for item in known_changes:
        tasks = _mark_tasks(item, tasks)
    for event in changes:
        _write_attribution(event, known_changes, cluster)
        tasks = _mark_tasks(_build_outside_change(event, known_changes, cluster, since), tasks)


def _list_execution_changes(
    cluster: SyncedCluster, services: Iterable[EcsServiceRecord], since: datetime
) -> list[DesiredCountChange]:
    """Return the counts that executions set, from the call journal; two queries."""
    by_name = {row.name: row.pk for row in services}
    recent = Q(stage__execution__ended_at=None) | Q(stage__execution__ended_at__gt=since)
    claims = ServiceLockClaim.objects.filter(recent, key__in=list_lock_keys(cluster, by_name))
    executions = set(claims.values_list("stage__execution", flat=True))
    rows = AwsCall.objects.filter(
        execution__in=executions, operation=_UPDATE_OPERATION, state__in=_SENT_STATES, sent_at__gt=since
    )
    calls = rows.select_related("execution__pipeline").defer("parameters", "result")
    return [row for call in calls.order_by("sent_at", "pk") if (row := _parse_count_change(call, by_name))]


def _parse_count_change(call: AwsCall, by_name: dict[str, int]) -> DesiredCountChange | None:
    ecs_service_id = by_name.get(str(call.preview.get("service", "")).rpartition("/")[2])
    count, at = call.preview.get("desiredCount"), call.sent_at
    if ecs_service_id is None or at is None or not isinstance(count, int):
        return None
    author, execution = _format_execution_name(call.execution), call.execution_id
    return DesiredCountChange(
        ecs_service_id, at - _CLOCK_TOLERANCE, at, count, Origin.EXECUTION, execution, author
    )


def _format_execution_name(execution: Execution) -> str:
    return f"by {execution.pipeline.name} #{execution.number}"


def _list_auto_scaling_changes(services: Iterable[int | None], since: datetime) -> list[DesiredCountChange]:
    rows = EcsServiceEvent.objects.filter(
        ecs_service__in=list(services), kind=Kind.SCALING, count__isnull=False, at__gt=since
    )
    return [
        DesiredCountChange(
            event.ecs_service_id,
            event.at - _CLOCK_TOLERANCE,
            event.at,
            event.count or 0,
            Origin.AUTO_SCALED,
            author="by auto scaling",
        )
        for event in rows.order_by("at", "pk")
    ]


def _build_outside_change(
    event: EcsServiceEvent, changes: Sequence[DesiredCountChange], cluster: SyncedCluster, since: datetime
) -> DesiredCountChange | None:
    """Return a change by neither an execution nor auto scaling, since the last sync."""
    if _find_count_change(event, changes) or _is_possibly_auto_scaling(event, cluster):
        return None
    return DesiredCountChange(event.ecs_service_id, since, event.at, event.count or 0, Origin.OUTSIDE)


def _find_count_change(
    event: EcsServiceEvent, changes: Sequence[DesiredCountChange]
) -> DesiredCountChange | None:
    """Return the last change that set this count."""
    matching = [
        change
        for change in changes
        if change.ecs_service_id == event.ecs_service_id and change.count == event.count
    ]
    return matching[-1] if matching else None


def _is_possibly_auto_scaling(event: EcsServiceEvent, cluster: SyncedCluster) -> bool:
    """Return whether auto scaling may have set the count without a readable activity."""
    if event.ecs_service.scaling is None or event.ecs_service.scaling_seen_at is None:
        return True
    is_denied = denied_reads.is_operation_denied(cluster.denied_reads, "DescribeScalingActivities")
    return bool(event.ecs_service.scaling.get("max")) and is_denied


def _write_attribution(
    event: EcsServiceEvent, changes: Sequence[DesiredCountChange], cluster: SyncedCluster
) -> None:
    change = _find_count_change(event, changes)
    if change is None and _is_possibly_auto_scaling(event, cluster):
        return
    author = change.author if change else "outside Slipway"
    EcsServiceEvent.objects.filter(pk=event.pk).update(message=f"{event.message.rstrip('.')}, set {author}.")


def _mark_tasks(change: DesiredCountChange | None, tasks: Sequence[ServiceInstance]) -> list[ServiceInstance]:
    """Mark as many tasks as the count grew by, and return the others; they replaced stopped tasks."""
    candidates = [task for task in tasks if change is not None and change.may_have_started(task)]
    if change is None or not candidates:
        return list(tasks)
    instances = ServiceInstance.objects.filter(ecs_service=change.ecs_service_id)
    earlier = instances.filter(created_at__lt=change.since)
    running_count = earlier.filter(Q(stopped_at=None) | Q(stopped_at__gt=change.at)).count()
    started = instances.filter(created_at__gte=change.since, created_at__lte=change.at + TASK_START_WINDOW)
    attributed_count = started.filter(_filter_attributed_tasks(change)).count()
    marked = {task.pk for task in candidates[: max(0, change.count - running_count - attributed_count)]}
    changes: dict[str, object] = {"origin": change.origin}
    if change.origin != Origin.AUTO_SCALED:
        changes["execution"] = change.execution
    ServiceInstance.objects.filter(pk__in=marked).update(**changes)
    return [task for task in tasks if task.pk not in marked]


def _filter_attributed_tasks(change: DesiredCountChange) -> Q:
    """Return the condition of tasks that are already attributed to this change."""
    if change.origin == Origin.OUTSIDE:
        return ~Q(origin=Origin.REPLACED)
    condition = Q(origin=change.origin)
    return condition & Q(execution=change.execution) if change.execution else condition
