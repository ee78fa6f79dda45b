"""Upserts of scalable targets and scaling activities."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from aws.apis.scaling import build_resource_id
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.column_values import build_row
from inventory.sync.ecs_payloads import AwsPayload, list_payloads
from inventory.sync.upserts.ecs_services import insert_events
from inventory.sync.upserts.scale_attribution import (
    TASK_START_WINDOW,
    list_changed_counts,
    list_unexplained_tasks,
)

# Scalable targets change rarely, so not every sync reads them.
SCALING_READ_INTERVAL: Final = timedelta(minutes=5)
_DESIRED_COUNT_PATTERN: Final = re.compile(r"[Ss]etting desired count to (\d{1,9})")
# Followed by the count, and in an activity in progress by "Waiting for change to be fulfilled by ecs."
_COUNT_SET_TEXT: Final = "Successfully set desired count"
_MAX_SINGLE_READS: Final = 5
# AWS rejects the whole call for an invalid service name.
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def list_due_targets(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Return the resource ids whose scalable target is unknown or was read minutes ago."""
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None)
    is_read = cluster.scaling_read_at is not None
    is_recent = cluster.scaling_read_at is not None and cluster.scaling_read_at > now - SCALING_READ_INTERVAL
    # A follow-up reads unknown targets only.
    if is_recent or (is_read and cluster.follow_up_due_at is not None):
        rows = rows.filter(scaling_seen_at=None)
    names = rows.order_by("pk").values_list("name", flat=True)
    return [build_resource_id(cluster.cluster, name) for name in names if _NAME_PATTERN.fullmatch(name)]


def list_unknown_targets(cluster: SyncedCluster, _: datetime) -> list[str]:
    """Return the resource ids whose scalable target is unknown, as after a changed count."""
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None, scaling_seen_at=None)
    names = rows.order_by("pk").values_list("name", flat=True)
    return [build_resource_id(cluster.cluster, name) for name in names if _NAME_PATTERN.fullmatch(name)]


def upsert_scalable_targets(
    cluster: SyncedCluster, resource_ids: Sequence[str], response: object, now: datetime
) -> None:
    """Store the scalable targets in a response; requested services without one are not scaled."""
    by_name = {_read_target_name(target): target for target in list_payloads(response, "ScalableTargets")}
    names = [name.rpartition("/")[2] for name in resource_ids]
    rows = list(EcsServiceRecord.objects.filter(cluster=cluster, name__in=names).only("pk", "name"))
    for row in rows:
        row.scaling, row.scaling_seen_at = _build_scaling(by_name.get(row.name)), now
    EcsServiceRecord.objects.bulk_update(rows, ["scaling", "scaling_seen_at"])


def _read_target_name(target: AwsPayload) -> str:
    return target.text("ResourceId").rpartition("/")[2]


def _build_scaling(target: AwsPayload | None) -> dict[str, object]:
    if target is None:
        return {}
    suspended = target.raw.get("SuspendedState")
    paused = (
        sorted(str(name) for name, is_suspended in suspended.items() if is_suspended is True)
        if isinstance(suspended, dict)
        else []
    )
    low, high = target.number("MinCapacity"), target.number("MaxCapacity")
    suspendable = {"DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended"}
    return {"min": low or 0, "max": high or 0, "suspended": [name for name in paused if name in suspendable]}


def list_unattributed_tasks(cluster: SyncedCluster, now: datetime) -> list[ServiceInstance]:
    """Return the new tasks that auto scaling may have started."""
    return list_unexplained_tasks(cluster, now, Q(ecs_service__scaling__has_key="max"))


def list_due_activities(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Return the resource ids for reading activities; an empty text means the whole region."""
    changed = {
        row.ecs_service.name
        for row in list_changed_counts(cluster, now)
        if (row.ecs_service.scaling or {}).get("max")
    }
    names = sorted(
        changed | {row.ecs_service.name for row in list_unattributed_tasks(cluster, now) if row.ecs_service}
    )
    if len(names) > _MAX_SINGLE_READS:
        return [""]
    return [build_resource_id(cluster.cluster, name) for name in names]


def mark_activities_unread(cluster: SyncedCluster, resource_ids: Sequence[str]) -> None:
    """Mark what scales these services as unknown, since AWS throttled the read of their activities.

    An empty id means the whole region. The next sync reads it again.
    """
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None, scaling__has_key="max")
    if "" not in resource_ids:
        rows = rows.filter(name__in=[name.rpartition("/")[2] for name in resource_ids])
    rows.update(scaling_seen_at=None)


def insert_scaling_activities(cluster: SyncedCluster, response: object, now: datetime) -> bool:
    """Insert scaling activities as events, and return whether older ones are needed."""
    activities = list_payloads(response, "ScalingActivities")
    prefix = build_resource_id(cluster.cluster, "")
    own = [activity for activity in activities if activity.text("ResourceId").startswith(prefix)]
    rows = EcsServiceRecord.objects.filter(
        cluster=cluster, name__in={_read_target_name(activity) for activity in own}
    )
    keys = dict(rows.values_list("name", "pk"))
    events = (_build_scaling_event(activity, keys) for activity in own)
    insert_events([event for event in events if event is not None])
    oldest = min(
        (started_at for activity in activities if (started_at := activity.moment("StartTime"))), default=None
    )
    waiting = list_unattributed_tasks(cluster, now)
    return bool(waiting) and oldest is not None and oldest > waiting[0].created_at - TASK_START_WINDOW


def _has_set_count(activity: AwsPayload) -> bool:
    """Return whether an activity has set the count; ECS may still be starting or stopping tasks for it.

    Another one in progress may still fail; the next sync reads it again.
    """
    is_complete = activity.text("StatusCode") == "Successful"
    return is_complete or activity.text("StatusMessage", 1000).startswith(_COUNT_SET_TEXT)


def _build_scaling_event(activity: AwsPayload, keys: dict[str, int]) -> EcsServiceEvent | None:
    ecs_service_id, started_at = keys.get(_read_target_name(activity)), activity.moment("StartTime")
    if ecs_service_id is None or started_at is None or not _has_set_count(activity):
        return None
    described, cause = activity.text("Description", 1000), activity.text("Cause", 1000)
    count = _DESIRED_COUNT_PATTERN.search(described)
    return build_row(
        EcsServiceEvent,
        ecs_service_id=ecs_service_id,
        kind=EcsServiceEvent.Kind.SCALING,
        event=activity.text("ActivityId", 64),
        count=int(count[1]) if count else None,
        at=started_at,
        message=f"{described} {cause}".strip(),
    )
