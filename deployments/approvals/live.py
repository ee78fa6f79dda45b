"""Live topic of approvals, and the notice that approvals changed."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from deployments.models import Approval
from rbac.policy import ResourceLocation
from web.live import (
    Audience,
    TopicSnapshot,
    TopicSource,
    audience_of_rows,
    audience_of_scopes,
    publish_change_on_commit,
)
from web.live.sources import parse_primary_keys

VIEW: Final = "core_pipeline_view"
APPROVALS_NAME: Final = "approvals"


def list_approval_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the state of these approvals, or of all waiting ones; one query."""
    waiting = {"status": Approval.Status.WAITING}
    conditions = waiting if keys is None else {"pk__in": list(parse_primary_keys(Approval, keys))}
    state_columns = ("status", "refreshes_completed", "refreshes_requested", "plan_hash", "decision_count")
    rows = Approval.objects.filter(**conditions).values_list(
        "pk", "execution__scope_id", "execution__pipeline__identifier", *state_columns
    )
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, pipeline, *state in rows:
        audience = Audience(ResourceLocation(scope, {"pipeline": pipeline}), VIEW)
        topics = frozenset({f"approval:{pk}"})
        snapshots[str(pk)] = (TopicSnapshot(audience, tuple(state), topics, list_topic=APPROVALS_NAME),)
    return snapshots


APPROVAL_TOPIC: Final = TopicSource(
    APPROVALS_NAME,
    topics={APPROVALS_NAME: audience_of_scopes, "approval": audience_of_rows(Approval, VIEW)},
    read_snapshots=list_approval_snapshots,
)
# Counts of the navigation, by person.
BADGES_NAME: Final = "badges"


def publish_approvals_changed(*approvals: UUID) -> None:
    """Publish changed approvals to their pages and the badges after the transaction commits."""
    publish_change_on_commit(APPROVAL_TOPIC.name, *approvals)
    publish_badges_changed()


def publish_badges_changed() -> None:
    """Publish all badges after the transaction commits."""
    publish_change_on_commit(BADGES_NAME, "all")
