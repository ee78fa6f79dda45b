"""What pages hear of executions: lists of them look again once one has another status."""

from collections.abc import Collection
from datetime import timedelta
from typing import Final

from django.db.models import Q

from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.policy import Place
from steps.states import TERMINAL, Status
from web.clock import database_now
from web.news import Audience, Shown, Subject, at_places, in_scopes
from web.news.subjects import keys_of

VIEW: Final = "core_pipeline_view"
# What began and ended between two looks is found by its end.
JUST_ENDED: Final = timedelta(minutes=5)
OPEN: Final = tuple(status for status in Status if status not in TERMINAL)
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


def execution_looks(keys: Collection[str] | None) -> dict[str, tuple[Shown, ...]]:
    """How these executions look in a list, or all that are open or have just ended; one query."""
    if keys is None:
        wanted = Q(status__in=OPEN) | Q(ended_at__gte=database_now() - JUST_ENDED)
    else:
        wanted = Q(pk__in=list(keys_of(Execution, keys)))
    found: dict[str, tuple[Shown, ...]] = {}
    for pk, scope, pipeline, identifier, *seen in Execution.objects.filter(wanted).values_list(*_COLUMNS):
        audience = Audience(Place(scope, {"pipeline": identifier}), VIEW)
        topics = frozenset({f"pipeline:{pipeline}"})
        found[str(pk)] = (Shown(audience, tuple(seen), topics, listed_as="executions"),)
    return found


EXECUTIONS: Final = Subject(
    "executions",
    topics={"executions": in_scopes, "pipeline": at_places(Pipeline, VIEW)},
    looks=execution_looks,
)
