"""One for each web process: hears that access changed, and wakes the open connections that it may concern."""

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from rbac.changes import GROUP

LISTEN_AGAIN_SECONDS = 1
logger = logging.getLogger(__name__)


class Attention:
    """What one connection waits with; who it is for may be said later."""

    def __init__(self) -> None:
        self.person: int | None = None
        self.session: str = ""
        # Set while nothing has changed since the last look: until then nothing more is shown.
        self.settled = asyncio.Event()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Have the connection look again, at once or when its look under way is done."""
        self.settled.clear()
        self._woken.set()

    def settle(self) -> None:
        """Note that a look found nothing against the connection, unless there was news meanwhile."""
        if not self._woken.is_set():
            self.settled.set()

    def is_concerned(self, people: list[int], sessions: list[str]) -> bool:
        """Whether a change is about this connection; one without names is about all."""
        if sessions:
            return self.session in sessions
        return not people or self.person is None or self.person in people

    async def news(self, seconds: float | None = None) -> None:
        """Wait for a change, `seconds` at most where given."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()


class _Ear:
    """Listens for all connections of this process."""

    def __init__(self) -> None:
        self.attentive: set[Attention] = set()
        # Set once changes are heard, or cannot be: what is sent before would be missed.
        self.ready = asyncio.Event()
        self._job: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._job = asyncio.create_task(self._listen())
        self._job.add_done_callback(_say_what_broke)

    def stop(self) -> None:
        """Stop listening."""
        if self._job is not None:
            self._job.cancel()

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (OSError, RedisError) as error:
                logger.warning("Changes of access are not heard: %s", error)
                self.ready.set()
                await asyncio.sleep(LISTEN_AGAIN_SECONDS)

    async def _listen_once(self) -> None:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        try:
            await layer.group_add(GROUP, channel)
            if self.ready.is_set():
                # What was sent while nobody listened is lost.
                self._pass_on({"people": [], "sessions": []})
            self.ready.set()
            while True:
                self._pass_on(await layer.receive(channel))
        finally:
            await layer.group_discard(GROUP, channel)

    def _pass_on(self, message: dict[str, Any]) -> None:
        for one in list(self.attentive):
            if one.is_concerned(message["people"], message["sessions"]):
                one.wake()


def _say_what_broke(job: "asyncio.Task[None]") -> None:
    if not job.cancelled() and (error := job.exception()) is not None:
        logger.error("Changes of access are not heard any more", exc_info=error)


_ears: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Ear] = weakref.WeakKeyDictionary()


@asynccontextmanager
async def attention() -> AsyncIterator[Attention]:
    """Hear of changes for the length of the block; the last one of a process ends its listening."""
    loop = asyncio.get_running_loop()
    ear = _ears.get(loop)
    if ear is None:
        ear = _ears[loop] = _Ear()
        ear.start()
    mine = Attention()
    ear.attentive.add(mine)
    try:
        await ear.ready.wait()
        yield mine
    finally:
        ear.attentive.discard(mine)
        if not ear.attentive:
            ear.stop()
            if _ears.get(loop) is ear:
                del _ears[loop]
