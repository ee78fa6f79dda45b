"""Live updates of the pages of acceptance runs."""

from collections.abc import Collection
from typing import Final

from ops.acceptance.operations import MANAGE
from ops.acceptance.runs import LIVE_SOURCE
from ops.models import AcceptanceRun
from rbac.models import Scope
from rbac.policy import ResourceLocation
from web.live import Audience, TopicSnapshot, TopicSource
from web.live.sources import parse_primary_keys


def read_run_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the snapshots of these runs, or of all that have not ended; two queries."""
    rows = AcceptanceRun.objects.filter(ended_at=None)
    if keys is not None:
        rows = AcceptanceRun.objects.filter(pk__in=list(parse_primary_keys(AcceptanceRun, keys)))
    columns = ("pk", "status", "progress__scenario__scenario", "cancel_requested_at", "ended_at")
    audience = _build_audience()
    return {
        str(pk): (TopicSnapshot(audience, tuple(state), frozenset({f"acceptance-run:{pk}"})),)
        for pk, *state in rows.values_list(*columns)
    }


def _list_audiences(keys: Collection[str]) -> dict[str, Audience]:
    by_key = parse_primary_keys(AcceptanceRun, keys)
    audience = _build_audience()
    existing = AcceptanceRun.objects.filter(pk__in=list(by_key)).values_list("pk", flat=True)
    return {by_key[pk]: audience for pk in existing}


def _build_audience() -> Audience:
    return Audience(ResourceLocation(Scope.objects.account().pk, {}), MANAGE)


ACCEPTANCE_SOURCE: Final = TopicSource(
    LIVE_SOURCE, topics={"acceptance-run": _list_audiences}, read_snapshots=read_run_snapshots
)
