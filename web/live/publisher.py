"""Publisher of messages to channel layer groups; a lost message delays pages and breaks nothing."""

import asyncio
import logging
import os
import threading
from typing import Any, Final

from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

MOST_PENDING: Final = 1000
# Changes of many commits within a moment become one message.
BATCH_WINDOW_SECONDS: Final = 0.2
MOST_KEYS_PER_MESSAGE: Final = 1000
logger = logging.getLogger(__name__)


class Publisher:
    """A thread with a loop of its own, because a connection to the broker lives as long as its loop."""

    def __init__(self) -> None:
        self.pending = 0
        self.is_connected = True
        self._batches: dict[tuple[str, str, str], set[str]] = {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="teller", daemon=True).start()

    def publish(self, group: str, messages: list[dict[str, Any]]) -> None:
        """Queue messages for a group; above the limit, messages of a blocked broker are dropped."""
        if self.pending >= MOST_PENDING:
            return
        self.pending += 1
        asyncio.run_coroutine_threadsafe(self._send(group, messages), self.loop)

    def publish_batched(self, group: str, kind: str, about: str, keys: list[str]) -> None:
        """Queue keys for the next message of this kind about this."""
        self.loop.call_soon_threadsafe(self._add_to_batch, (group, kind, about), keys)

    def _add_to_batch(self, message: tuple[str, str, str], keys: list[str]) -> None:
        if message not in self._batches:
            self._batches[message] = set()
            self.loop.call_later(BATCH_WINDOW_SECONDS, self._send_batch, message)
        self._batches[message].update(keys)

    def _send_batch(self, message: tuple[str, str, str]) -> None:
        group, kind, about = message
        keys = sorted(self._batches.pop(message))
        parts = [
            keys[first : first + MOST_KEYS_PER_MESSAGE]
            for first in range(0, len(keys), MOST_KEYS_PER_MESSAGE)
        ]
        self.publish(group, [{"type": kind, "about": about, "keys": part} for part in parts])

    async def _send(self, group: str, messages: list[dict[str, Any]]) -> None:
        try:
            layer = get_channel_layer()
            for message in messages:
                await layer.group_send(group, message)
            self.is_connected = True
        except (OSError, RedisError) as error:
            # Logged once per outage of the broker.
            if self.is_connected:
                logger.warning("Live pages get no updates until the broker is available: %s", error)
            self.is_connected = False
        finally:
            self.pending -= 1


_publishers: dict[int, Publisher] = {}
_lock = threading.Lock()


def publish(group: str, *messages: dict[str, Any]) -> None:
    """Send messages to a group of the channel layer, without a delivery guarantee."""
    if get_channel_layer() is not None:
        _get_publisher().publish(group, list(messages))


def publish_batched(group: str, kind: str, about: str, *keys: str) -> None:
    """Send keys to a group, batched with others of the same moment."""
    if keys and get_channel_layer() is not None:
        _get_publisher().publish_batched(group, kind, about, list(keys))


def _get_publisher() -> Publisher:
    process = os.getpid()
    with _lock:
        # A thread does not come along into a forked process.
        if process not in _publishers:
            _publishers.clear()
            _publishers[process] = Publisher()
        return _publishers[process]


CHANGES_GROUP: Final = "topics"
CHANGES_MESSAGE_TYPE: Final = "topics.changed"


def publish_change_on_commit(source: str, *keys: Any) -> None:
    """Publish changed objects after the transaction commits, without a delivery guarantee."""
    transaction.on_commit(lambda: publish_change(source, *keys), robust=True)


def publish_change(source: str, *keys: Any) -> None:
    """Publish changed objects that are committed already."""
    publish_batched(CHANGES_GROUP, CHANGES_MESSAGE_TYPE, source, *map(str, keys))
