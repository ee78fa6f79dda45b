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

# What scales a service changes seldom: not each look asks for it.
SCALING_READ_INTERVAL: Final = timedelta(minutes=5)
_DESIRED_COUNT_PATTERN: Final = re.compile(r"[Ss]etting desired count to (\d{1,9})")
_MAX_SINGLE_READS: Final = 5
# What AWS takes as the name of a service; it refuses a whole call for another.
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def list_due_targets(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The ids of those whose scaling is not known, or was last read minutes ago."""
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None)
    is_read = cluster.scaling_read_at is not None
    is_recent = cluster.scaling_read_at is not None and cluster.scaling_read_at > now - SCALING_READ_INTERVAL
    # The sync after a deployment leaves what is only old to the next one.
    if is_recent or (is_read and cluster.follow_up_due_at is not None):
        rows = rows.filter(scaling_seen_at=None)
    names = rows.order_by("pk").values_list("name", flat=True)
    return [build_resource_id(cluster.cluster, name) for name in names if _NAME_PATTERN.fullmatch(name)]


def upsert_scalable_targets(
    cluster: SyncedCluster, asked: Sequence[str], answer: object, now: datetime
) -> None:
    """Keep the scalable targets in an answer; who has none of those that were asked for is not scaled."""
    found = {_read_target_name(one): one for one in list_payloads(answer, "ScalableTargets")}
    names = [name.rpartition("/")[2] for name in asked]
    rows = list(EcsServiceRecord.objects.filter(cluster=cluster, name__in=names).only("pk", "name"))
    for row in rows:
        row.scaling, row.scaling_seen_at = _build_scaling(found.get(row.name)), now
    EcsServiceRecord.objects.bulk_update(rows, ["scaling", "scaling_seen_at"])


def _read_target_name(target: AwsPayload) -> str:
    return target.text("ResourceId").rpartition("/")[2]


def _build_scaling(target: AwsPayload | None) -> dict[str, object]:
    if target is None:
        return {}
    suspended = target.raw.get("SuspendedState")
    paused = (
        sorted(str(name) for name, is_so in suspended.items() if is_so is True)
        if isinstance(suspended, dict)
        else []
    )
    low, high = target.number("MinCapacity"), target.number("MaxCapacity")
    known = {"DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended"}
    return {"min": low or 0, "max": high or 0, "suspended": [name for name in paused if name in known]}


def list_unattributed_tasks(cluster: SyncedCluster, now: datetime) -> list[ServiceInstance]:
    """Tasks, new since the last look, that auto scaling may have started: something scales their service."""
    return list_unexplained_tasks(cluster, now, Q(ecs_service__scaling__has_key="max"))


def list_due_activities(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Whose activities to ask for: of a few services one by one, of many those of the region at once."""
    changed = {
        one.ecs_service.name
        for one in list_changed_counts(cluster, now)
        if (one.ecs_service.scaling or {}).get("max")
    }
    names = sorted(
        changed | {one.ecs_service.name for one in list_unattributed_tasks(cluster, now) if one.ecs_service}
    )
    if len(names) > _MAX_SINGLE_READS:
        return [""]
    return [build_resource_id(cluster.cluster, name) for name in names]


def insert_scaling_activities(cluster: SyncedCluster, answer: object, now: datetime) -> bool:
    """Keep what scaled as events of the services, and say whether older ones could still tell something."""
    found = list_payloads(answer, "ScalingActivities")
    place = build_resource_id(cluster.cluster, "")
    mine = [one for one in found if one.text("ResourceId").startswith(place)]
    rows = EcsServiceRecord.objects.filter(cluster=cluster, name__in={_read_target_name(one) for one in mine})
    keys = dict(rows.values_list("name", "pk"))
    events = (_build_scaling_event(one, keys) for one in mine)
    insert_events([event for event in events if event is not None])
    oldest = min((at for one in found if (at := one.moment("StartTime"))), default=None)
    waiting = list_unattributed_tasks(cluster, now)
    return bool(waiting) and oldest is not None and oldest > waiting[0].created_at - TASK_START_WINDOW


def _build_scaling_event(activity: AwsPayload, keys: dict[str, int]) -> EcsServiceEvent | None:
    seen, at = keys.get(_read_target_name(activity)), activity.moment("StartTime")
    # What is still under way may yet fail; it is asked for again.
    if seen is None or at is None or activity.text("StatusCode") != "Successful":
        return None
    described, cause = activity.text("Description", 1000), activity.text("Cause", 1000)
    count = _DESIRED_COUNT_PATTERN.search(described)
    return build_row(
        EcsServiceEvent,
        ecs_service_id=seen,
        kind=EcsServiceEvent.Kind.SCALING,
        event=activity.text("ActivityId", 64),
        count=int(count[1]) if count else None,
        at=at,
        message=f"{described} {cause}".strip(),
    )
