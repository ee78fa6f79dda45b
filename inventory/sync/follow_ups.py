"""Follow-ups of deployments: what a sync right after one reads, and what of it the engine has read."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from deployments.engine.parking import group_of
from deployments.engine.recent_reads import NEVER, SERVICES, TARGETS, get_recent, region_group
from inventory.models.instances import SeenService, SyncedCluster
from inventory.sync.reading import Reading
from inventory.sync.recent_writes import TAGS, RecentWrites

# Services that others make, and tasks that came and went unseen, are found by a sync that lists all.
LISTED_EVERY: Final = timedelta(minutes=4)


def new_reading(cluster: SyncedCluster, now: datetime) -> Reading:
    """Return a reading from its beginning: after a deployment that only updated, one of what is known."""
    if not _is_listed(cluster, now) or not RecentWrites.of(cluster, now).only_updates:
        return Reading(began=now.isoformat())
    rows = SeenService.objects.filter(cluster=cluster, gone_at=None).order_by("pk")
    names = list(rows.values_list("name", flat=True))
    return Reading.of_follow_up(now.isoformat(), names) if names else Reading(began=now.isoformat())


def _is_listed(cluster: SyncedCluster, now: datetime) -> bool:
    """Whether a deployment is to be followed, and the services were listed a short while ago."""
    follows, listed = cluster.follows_at is not None, cluster.listed_at
    return follows and listed is not None and listed > now - LISTED_EVERY


def recent_services(
    cluster: SyncedCluster, asked: Collection[str], now: datetime
) -> dict[str, dict[str, Any]]:
    """Return the services among `asked` that the engine described after their last change, by name.

    Its reads have no tags. Those of the last sync hold as long as no execution has written any since.
    """
    names = {one.rsplit("/", 1)[-1] for one in asked}
    reads = get_recent(SERVICES, group_of(cluster), names, since=cluster.asked_at or NEVER, now=now)
    if not reads:
        return {}
    writes = RecentWrites.of(cluster, now).last
    rows = SeenService.objects.filter(
        cluster=cluster, name__in=list(reads), gone_at=None, seen_at__gt=writes[TAGS]
    )
    tags = {name: answered.get("tags", []) for name, answered in rows.values_list("name", "answered")}
    return {
        name: {**read.answer, "tags": tags[name]}
        for name, read in reads.items()
        if read.answer is not None and read.begun > writes[SERVICES] and name in tags
    }


def recent_targets(
    cluster: SyncedCluster, asked: Collection[str], now: datetime
) -> dict[str, dict[str, Any] | None]:
    """Return the scalable targets of `asked` as read after the last change of any; None is no target."""
    group = region_group(cluster.connector, cluster.region)
    reads = get_recent(TARGETS, group, asked, since=cluster.asked_at or NEVER, now=now)
    since = RecentWrites.of(cluster, now).last[TARGETS] if reads else NEVER
    return {name: read.answer for name, read in reads.items() if read.begun > since}
