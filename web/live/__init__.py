"""Live updates of pages: sockets, authorization of sockets, and topics that pages subscribe to."""

from web.live.publisher import publish_change, publish_change_on_commit
from web.live.sources import (
    Audience,
    TopicSnapshot,
    TopicSource,
    audience_of_rows,
    audience_of_scopes,
    register_source,
)

__all__ = [
    "Audience",
    "TopicSnapshot",
    "TopicSource",
    "audience_of_rows",
    "audience_of_scopes",
    "publish_change",
    "publish_change_on_commit",
    "register_source",
]
