"""Subscription to a channel layer group that survives outages of the broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

RESUBSCRIBE_SECONDS = 1
logger = logging.getLogger(__name__)

GroupMessage = dict[str, Any]


async def subscribe(
    group: str,
    *,
    about: str,
    ready: Callable[[], Awaitable[None]],
    take: Callable[[GroupMessage], Awaitable[None]],
) -> None:
    """Pass each message to `take` until the task is cancelled; `about` names the sender in the log.

    `ready` is awaited when the subscription starts, and each second of an outage, because messages may be
    lost.
    """
    while True:
        try:
            await _subscribe_once(group, ready, take)
        except (OSError, RedisError) as error:
            logger.warning("Subscription to %s failed: %s", about, error)
            await ready()
            await asyncio.sleep(RESUBSCRIBE_SECONDS)


async def _subscribe_once(
    group: str, ready: Callable[[], Awaitable[None]], take: Callable[[GroupMessage], Awaitable[None]]
) -> None:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    try:
        await layer.group_add(group, channel)
        await ready()
        while True:
            await take(await layer.receive(channel))
    finally:
        await layer.group_discard(group, channel)
