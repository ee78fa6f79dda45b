"""Live topic of execution lists."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from django.db.models import Q

from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.policy import ResourceLocation
from steps.states import OPEN_STATUSES
from web.clock import get_database_time
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows, audience_of_scopes
from web.live.sources import parse_primary_keys

VIEW: Final = "core_pipeline_view"
# What began and ended between two looks is found by its end.
JUST_ENDED: Final = timedelta(minutes=5)
_COLUMNS: Final = (
    "pk",
    "scope_id",
    "pipeline_id",
    "pipeline__identifier",
    "status",
    "outcome",
    "started_at",
    "ended_at",
)


def list_execution_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the list state of these executions, or of all open and recently ended ones; one query."""
    if keys is None:
        condition = Q(status__in=OPEN_STATUSES) | Q(ended_at__gte=get_database_time() - JUST_ENDED)
    else:
        condition = Q(pk__in=list(parse_primary_keys(Execution, keys)))
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, pipeline, identifier, *state in Execution.objects.filter(condition).values_list(*_COLUMNS):
        audience = Audience(ResourceLocation(scope, {"pipeline": identifier}), VIEW)
        topics = frozenset({f"pipeline:{pipeline}"})
        snapshots[str(pk)] = (TopicSnapshot(audience, tuple(state), topics, list_topic="executions"),)
    return snapshots


EXECUTION_TOPIC: Final = TopicSource(
    "executions",
    topics={"executions": audience_of_scopes, "pipeline": audience_of_rows(Pipeline, VIEW)},
    read_snapshots=list_execution_snapshots,
)
