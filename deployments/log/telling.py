"""Tells watchers about news, without making the teller wait: a lost message is found by its number."""

import asyncio
import logging
import os
import threading
from typing import Any
from uuid import UUID

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from deployments.log.blocks import Block

MOST_UNDER_WAY = 1000
logger = logging.getLogger(__name__)


class _Teller:
    """A thread with a loop of its own, because a connection to the broker lives as long as its loop."""

    def __init__(self) -> None:
        self.under_way = 0
        self.is_heard = True
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="teller", daemon=True).start()

    def tell(self, group: str, messages: list[dict[str, Any]]) -> None:
        """Queue messages for a group; what a stuck broker leaves behind is dropped."""
        if self.under_way >= MOST_UNDER_WAY:
            return
        self.under_way += 1
        asyncio.run_coroutine_threadsafe(self._send(group, messages), self.loop)

    async def _send(self, group: str, messages: list[dict[str, Any]]) -> None:
        try:
            layer = get_channel_layer()
            for message in messages:
                await layer.group_send(group, message)
            self.is_heard = True
        except (OSError, RedisError) as error:
            # Said once for each time that the broker goes away.
            if self.is_heard:
                logger.warning("Watchers are not told before the broker is back: %s", error)
            self.is_heard = False
        finally:
            self.under_way -= 1


_tellers: dict[int, _Teller] = {}
_lock = threading.Lock()


def tell(execution_id: UUID, *messages: dict[str, Any]) -> None:
    """Send messages to whoever watches this execution; nobody depends on their arrival."""
    tell_group(group_of(execution_id), *messages)


def tell_group(group: str, *messages: dict[str, Any]) -> None:
    """Send messages to a group of the channel layer; nobody depends on their arrival."""
    if get_channel_layer() is not None:
        _teller().tell(group, list(messages))


def _teller() -> _Teller:
    process = os.getpid()
    with _lock:
        # A thread does not come along into a forked process.
        if process not in _tellers:
            _tellers.clear()
            _tellers[process] = _Teller()
        return _tellers[process]


def tell_blocks(execution_id: UUID, blocks: list[Block]) -> None:
    """Send new lines."""
    tell(
        execution_id,
        *({"type": "log.block", "first": one.first, "last": one.last, "body": one.body} for one in blocks),
    )


def group_of(execution_id: UUID | str) -> str:
    """The channel group of those who watch an execution."""
    return f"execution.{execution_id}"
