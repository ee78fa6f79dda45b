"""Live updates of the pages of Git syncs."""

from collections.abc import Collection
from typing import Final

from django.db.models import Max

from gitsync.models import GitSync
from gitsync.operations import VIEW
from gitsync.passes import LIVE_SOURCE
from rbac.policy import ResourceLocation
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows
from web.live.sources import parse_primary_keys


def read_sync_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the snapshots of these syncs, or of all enabled ones; one query."""
    rows = GitSync.objects.filter(is_enabled=True)
    if keys is not None:
        rows = GitSync.objects.filter(pk__in=list(parse_primary_keys(GitSync, keys)))
    rows = rows.annotate(proposed_at=Max("proposals__created_at"), pushed_at=Max("proposals__ended_at"))
    columns = (
        "state",
        "seen_commit",
        "applied_commit",
        "applied_at",
        "is_requested",
        "is_enabled",
        "proposed_at",
        "pushed_at",
    )
    return {
        str(pk): (
            TopicSnapshot(
                Audience(ResourceLocation(scope, {"gitsync": identifier}), VIEW),
                tuple(state),
                frozenset({f"git-sync:{pk}"}),
                age=checked_at,
            ),
        )
        for pk, scope, identifier, checked_at, *state in rows.values_list(
            "pk", "scope_id", "identifier", "checked_at", *columns
        )
    }


GIT_SYNC_SOURCE: Final = TopicSource(
    LIVE_SOURCE,
    topics={"git-sync": audience_of_rows(GitSync, VIEW)},
    read_snapshots=read_sync_snapshots,
)
