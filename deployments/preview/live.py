"""Live topic of previews."""

from collections.abc import Collection
from typing import Final

from deployments.models import PreviewRequest
from deployments.preview.operations import PREVIEW_TIMEOUT
from web.clock import get_database_time
from web.live import Audience, TopicSnapshot, TopicSource
from web.live.sources import parse_primary_keys


def list_preview_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the progress of these previews, or of all unfinished ones, with two queries."""
    conditions = (
        {"finished_at": None} if keys is None else {"pk__in": list(parse_primary_keys(PreviewRequest, keys))}
    )
    columns = ("pk", "requested_by_id", "requested_at", "task_id", "finished_at")
    timeout_at = get_database_time() - PREVIEW_TIMEOUT
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, person_id, requested_at, *progress in PreviewRequest.objects.filter(**conditions).values_list(
        *columns
    ):
        # A new request replaces a preview that takes too long.
        state = (*progress, requested_at < timeout_at)
        snapshots[str(pk)] = (
            TopicSnapshot(Audience(person_id=person_id), state, frozenset({f"preview:{pk}"})),
        )
    return snapshots


def _list_audiences(keys: Collection[str]) -> dict[str, Audience]:
    by_key = parse_primary_keys(PreviewRequest, keys)
    rows = PreviewRequest.objects.filter(pk__in=list(by_key)).values_list("pk", "requested_by_id")
    return {by_key[pk]: Audience(person_id=person_id) for pk, person_id in rows}


PREVIEW_TOPIC: Final = TopicSource(
    "previews", topics={"preview": _list_audiences}, read_snapshots=list_preview_snapshots
)
