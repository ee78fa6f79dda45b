"""Tells groups of the channel layer about news, without making the teller wait; what is lost is found."""

import asyncio
import logging
import os
import threading
from typing import Any, Final

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

MOST_UNDER_WAY: Final = 1000
# What many commits change in a moment is told in one message.
GATHERED_FOR_SECONDS: Final = 0.2
MOST_IN_ONE: Final = 1000
logger = logging.getLogger(__name__)


class _Teller:
    """A thread with a loop of its own, because a connection to the broker lives as long as its loop."""

    def __init__(self) -> None:
        self.under_way = 0
        self.is_heard = True
        self._gathered: dict[tuple[str, str, str], set[str]] = {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="teller", daemon=True).start()

    def tell(self, group: str, messages: list[dict[str, Any]]) -> None:
        """Queue messages for a group; what a stuck broker leaves behind is dropped."""
        if self.under_way >= MOST_UNDER_WAY:
            return
        self.under_way += 1
        asyncio.run_coroutine_threadsafe(self._send(group, messages), self.loop)

    def gather(self, group: str, kind: str, about: str, keys: list[str]) -> None:
        """Queue keys for the next message of this kind about this."""
        self.loop.call_soon_threadsafe(self._gather, (group, kind, about), keys)

    def _gather(self, message: tuple[str, str, str], keys: list[str]) -> None:
        if message not in self._gathered:
            self._gathered[message] = set()
            self.loop.call_later(GATHERED_FOR_SECONDS, self._send_gathered, message)
        self._gathered[message].update(keys)

    def _send_gathered(self, message: tuple[str, str, str]) -> None:
        group, kind, about = message
        keys = sorted(self._gathered.pop(message))
        parts = [keys[first : first + MOST_IN_ONE] for first in range(0, len(keys), MOST_IN_ONE)]
        self.tell(group, [{"type": kind, "about": about, "keys": part} for part in parts])

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


def tell_group(group: str, *messages: dict[str, Any]) -> None:
    """Send messages to a group of the channel layer; nobody depends on their arrival."""
    if get_channel_layer() is not None:
        _teller().tell(group, list(messages))


def tell_gathered(group: str, kind: str, about: str, *keys: str) -> None:
    """Send keys to a group, together with others that come within a moment."""
    if keys and get_channel_layer() is not None:
        _teller().gather(group, kind, about, list(keys))


def _teller() -> _Teller:
    process = os.getpid()
    with _lock:
        # A thread does not come along into a forked process.
        if process not in _tellers:
            _tellers.clear()
            _tellers[process] = _Teller()
        return _tellers[process]
