"""Live updates of the set-ups of event queues on pages of connectors."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from connectors.models import Connector, EventQueueSetup
from rbac.policy import ResourceLocation
from web.live import Audience, TopicSnapshot, TopicSource, audience_of_rows, publish_change_on_commit
from web.live.sources import parse_primary_keys

SETUP_SOURCE_NAME: Final = "event-queue-setups"
_VIEW_PERMISSION: Final = "core_connector_view"


def get_setup_topic(connector: Connector) -> str:
    """Return the topic of the set-ups of a connector."""
    return f"{SETUP_SOURCE_NAME}:{connector.pk}"


def publish_setup_changed(connector_id: int) -> None:
    """Publish a change of a set-up to the page of its connector after the current transaction commits."""
    publish_change_on_commit(SETUP_SOURCE_NAME, connector_id)


def read_setup_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the set-ups of these connectors, or of all with one that runs; one query."""
    rows = EventQueueSetup.objects.filter(dismissed_at=None)
    if keys is None:
        rows = rows.filter(status=EventQueueSetup.Status.RUNNING)
    else:
        rows = rows.filter(connector__in=list(parse_primary_keys(Connector, keys)))
    states: defaultdict[tuple[int, int, str], list[Any]] = defaultdict(list)
    columns = ("connector", "connector__scope", "connector__identifier", "pk", "status", "message")
    for connector, scope, identifier, *state in rows.order_by("pk").values_list(*columns):
        states[connector, scope, identifier].append(tuple(state))
    return {
        str(connector): (
            TopicSnapshot(
                Audience(ResourceLocation(scope, {"connector": identifier}), _VIEW_PERMISSION),
                tuple(state),
                frozenset({f"{SETUP_SOURCE_NAME}:{connector}"}),
            ),
        )
        for (connector, scope, identifier), state in states.items()
    }


SETUP_SOURCE: Final = TopicSource(
    SETUP_SOURCE_NAME,
    topics={SETUP_SOURCE_NAME: audience_of_rows(Connector, _VIEW_PERMISSION)},
    read_snapshots=read_setup_snapshots,
)
