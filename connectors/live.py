"""Live updates of the set-ups of event queues on pages of connectors."""

from collections.abc import Collection
from typing import Final

from connectors.models import Connector, EventQueueSetup
from rbac.policy import ResourceLocation
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows, publish_change_on_commit
from web.live.sources import parse_primary_keys

SETUP_SOURCE_NAME: Final = "event-queue-setups"
_VIEW_PERMISSION: Final = "core_connector_view"
_SHOWN_COLUMNS: Final = ("status", "message", "account", "stack_id", "dismissed_at")


def get_setup_topic(connector: Connector) -> str:
    """Return the topic of the set-ups of a connector."""
    return f"{SETUP_SOURCE_NAME}:{connector.pk}"


def publish_setup_changed(setup_id: int) -> None:
    """Publish a change of a set-up to the page of its connector after the current transaction commits."""
    publish_change_on_commit(SETUP_SOURCE_NAME, setup_id)


def read_setup_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the state of these set-ups, or of all that run; one query."""
    rows = EventQueueSetup.objects.filter(status=EventQueueSetup.Status.RUNNING)
    if keys is not None:
        rows = EventQueueSetup.objects.filter(pk__in=list(parse_primary_keys(EventQueueSetup, keys)))
    location = ("connector", "connector__scope", "connector__identifier")
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, connector, scope, identifier, *state in rows.values_list("pk", *location, *_SHOWN_COLUMNS):
        audience = Audience(ResourceLocation(scope, {"connector": identifier}), _VIEW_PERMISSION)
        topics = frozenset({f"{SETUP_SOURCE_NAME}:{connector}"})
        snapshots[str(pk)] = (TopicSnapshot(audience, tuple(state), topics),)
    return snapshots


SETUP_SOURCE: Final = TopicSource(
    SETUP_SOURCE_NAME,
    topics={SETUP_SOURCE_NAME: audience_of_rows(Connector, _VIEW_PERMISSION)},
    read_snapshots=read_setup_snapshots,
)
