"""Keeps what scales ECS services, and what auto scaling did."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from aws.scaling import resource_id
from inventory.models.instances import SeenEvent, SeenService, ServiceInstance, SyncedCluster
from inventory.sync.columns import row_of
from inventory.sync.keeping.growth import STARTS_WITHIN, changed_counts, unexplained
from inventory.sync.keeping.services import add_events
from inventory.sync.told import Told, rows_of

# What scales a service changes seldom: not each look asks for it.
READ_EVERY: Final = timedelta(minutes=5)
_DESIRED: Final = re.compile(r"[Ss]etting desired count to (\d{1,9})")
_ONE_BY_ONE: Final = 5
# What AWS takes as the name of a service; it refuses a whole call for another.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def services_to_ask(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The ids of those whose scaling is not known, or was last read minutes ago."""
    rows = SeenService.objects.filter(cluster=cluster, gone_at=None)
    is_read = cluster.scaling_read_at is not None
    is_recent = cluster.scaling_read_at is not None and cluster.scaling_read_at > now - READ_EVERY
    # The sync after a deployment leaves what is only old to the next one.
    if is_recent or (is_read and cluster.follows_at is not None):
        rows = rows.filter(scaling_seen_at=None)
    names = rows.order_by("pk").values_list("name", flat=True)
    return [resource_id(cluster.cluster, name) for name in names if _NAME.fullmatch(name)]


def keep_targets(cluster: SyncedCluster, asked: Sequence[str], answer: object, now: datetime) -> None:
    """Keep the scalable targets in an answer; who has none of those that were asked for is not scaled."""
    found = {_name_in(one): one for one in rows_of(answer, "ScalableTargets")}
    names = [name.rpartition("/")[2] for name in asked]
    rows = list(SeenService.objects.filter(cluster=cluster, name__in=names).only("pk", "name"))
    for row in rows:
        row.scaling, row.scaling_seen_at = _scaling(found.get(row.name)), now
    SeenService.objects.bulk_update(rows, ["scaling", "scaling_seen_at"])


def _name_in(target: Told) -> str:
    return target.text("ResourceId").rpartition("/")[2]


def _scaling(target: Told | None) -> dict[str, object]:
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


def doubtful(cluster: SyncedCluster, now: datetime) -> list[ServiceInstance]:
    """Tasks, new since the last look, that auto scaling may have started: something scales their service."""
    return unexplained(cluster, now, Q(seen__scaling__has_key="max"))


def activities_to_ask(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Whose activities to ask for: of a few services one by one, of many those of the region at once."""
    changed = {one.seen.name for one in changed_counts(cluster, now) if (one.seen.scaling or {}).get("max")}
    names = sorted(changed | {one.seen.name for one in doubtful(cluster, now) if one.seen})
    if len(names) > _ONE_BY_ONE:
        return [""]
    return [resource_id(cluster.cluster, name) for name in names]


def keep_activities(cluster: SyncedCluster, answer: object, now: datetime) -> bool:
    """Keep what scaled as events of the services, and say whether older ones could still tell something."""
    found = rows_of(answer, "ScalingActivities")
    place = resource_id(cluster.cluster, "")
    mine = [one for one in found if one.text("ResourceId").startswith(place)]
    rows = SeenService.objects.filter(cluster=cluster, name__in={_name_in(one) for one in mine})
    keys = dict(rows.values_list("name", "pk"))
    events = (_event(one, keys) for one in mine)
    add_events([event for event in events if event is not None])
    oldest = min((at for one in found if (at := one.moment("StartTime"))), default=None)
    waiting = doubtful(cluster, now)
    return bool(waiting) and oldest is not None and oldest > waiting[0].created_at - STARTS_WITHIN


def _event(activity: Told, keys: dict[str, int]) -> SeenEvent | None:
    seen, at = keys.get(_name_in(activity)), activity.moment("StartTime")
    # What is still under way may yet fail; it is asked for again.
    if seen is None or at is None or activity.text("StatusCode") != "Successful":
        return None
    described, cause = activity.text("Description", 1000), activity.text("Cause", 1000)
    count = _DESIRED.search(described)
    return row_of(
        SeenEvent,
        seen_id=seen,
        kind=SeenEvent.Kind.SCALING,
        event=activity.text("ActivityId", 64),
        count=int(count[1]) if count else None,
        at=at,
        message=f"{described} {cause}".strip(),
    )
