"""Live topic of previews."""

from collections.abc import Collection
from typing import Final

from deployments.models import PreviewRequest
from deployments.preview.operations import PREVIEW_TIMEOUT
from web.clock import get_database_time
from web.live import Audience, TopicSnapshot, TopicSource
from web.live.sources import parse_primary_keys


def list_preview_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return how far these previews are, or all that are not finished; two queries."""
    wanted = (
        {"finished_at": None} if keys is None else {"pk__in": list(parse_primary_keys(PreviewRequest, keys))}
    )
    columns = ("pk", "requested_by_id", "requested_at", "task_id", "finished_at")
    old = get_database_time() - PREVIEW_TIMEOUT
    found: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, asker, asked_at, *seen in PreviewRequest.objects.filter(**wanted).values_list(*columns):
        # One that takes too long is begun anew by who asks again.
        state = (*seen, asked_at < old)
        found[str(pk)] = (TopicSnapshot(Audience(person_id=asker), state, frozenset({f"preview:{pk}"})),)
    return found


def _list_audiences(keys: Collection[str]) -> dict[str, Audience]:
    by_key = parse_primary_keys(PreviewRequest, keys)
    rows = PreviewRequest.objects.filter(pk__in=list(by_key)).values_list("pk", "requested_by_id")
    return {by_key[pk]: Audience(person_id=asker) for pk, asker in rows}


PREVIEW_TOPIC: Final = TopicSource(
    "previews", topics={"preview": _list_audiences}, read_snapshots=list_preview_snapshots
)
