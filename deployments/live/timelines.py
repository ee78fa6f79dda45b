"""Live topic of the timeline of an execution."""

from collections.abc import Collection
from typing import Final

from deployments.models import Execution
from rbac.policy import get_resource_locations
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows
from web.live.sources import parse_primary_keys

VIEW: Final = "core_pipeline_view"
# The engine writes a line with almost everything that it does.
_COLUMNS: Final = ("pk", "status", "outcome", "next_line_number")


def read_timeline_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return how far these executions are; three queries."""
    by_key = parse_primary_keys(Execution, keys or ())
    states = {pk: tuple(state) for pk, *state in _list_states(by_key)}
    return {
        by_key[pk]: (TopicSnapshot(Audience(place, VIEW), states[pk], frozenset({f"timeline:{by_key[pk]}"})),)
        for pk, place in get_resource_locations(Execution, by_key).items()
        if pk in states
    }


def _list_states(keys: Collection[object]) -> list[tuple[object, ...]]:
    return list(Execution.objects.filter(pk__in=list(keys)).values_list(*_COLUMNS))


TIMELINE_SOURCE: Final = TopicSource(
    "timelines",
    topics={"timeline": audience_of_rows(Execution, VIEW)},
    read_snapshots=read_timeline_snapshots,
    reads_watched_keys=True,
    poll_seconds=2,
)
