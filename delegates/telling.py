"""Tells the pages that watch delegates that some have changed; what changed is read from the database."""

import logging

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

from web.news import changed

GROUP = "delegates"
# What pages call them that show other things too.
SUBJECT = "delegates"
logger = logging.getLogger(__name__)


def tell(*delegate_ids: int) -> None:
    """After the commit under way, send the ids of changed delegates to whoever watches."""
    transaction.on_commit(lambda: _send(sorted(set(delegate_ids))))
    changed(SUBJECT, *delegate_ids)


def _send(delegate_ids: list[int]) -> None:
    layer = get_channel_layer()
    if layer is None or not delegate_ids:
        return
    try:
        async_to_sync(layer.group_send)(GROUP, {"type": "delegates.changed", "ids": delegate_ids})
    except (OSError, RedisError) as error:
        logger.warning("Nobody was told of a change, watchers find it with their next look: %s", error)
