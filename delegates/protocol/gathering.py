"""Gathers the heartbeats of one process, so that a second of them costs one transaction."""

import asyncio
import logging
from collections.abc import Callable

from delegates.protocol.beats import Beat
from delegates.protocol.heartbeats import Answer, write
from delegates.protocol.threads import in_thread
from web.outages import OUTAGES, is_outage

EVERY_SECONDS = 1.0
Told = Callable[[Answer], None]
logger = logging.getLogger(__name__)


class Gathering:
    """Heartbeats that wait to be written, the newest of each instance, and who waits for the answers."""

    def __init__(self) -> None:
        self._beats: dict[int, Beat] = {}
        self._told: dict[int, list[Told]] = {}
        self._written_at = 0.0
        self._job: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def add(self, beat: Beat, told: Told) -> None:
        """Take a heartbeat; `told` hears the answer once it is committed."""
        self._beats[beat.instance_id] = beat
        waiting = self._told.setdefault(beat.instance_id, [])
        if told not in waiting:
            waiting.append(told)
        if self._job is None:
            self._job = asyncio.create_task(self._write())
            self._job.add_done_callback(self._ended)

    async def forget(self, instance_id: int) -> None:
        """An instance is gone: write nothing more that it said, and wait while something is written."""
        self._beats.pop(instance_id, None)
        self._told.pop(instance_id, None)
        async with self._writing:
            return

    def stop(self) -> None:
        """Nobody is here any more who could be answered."""
        if self._job is not None:
            self._job.cancel()

    async def _write(self) -> None:
        """Write what has gathered, again and again until there is no more."""
        clock = asyncio.get_running_loop().time
        while self._beats:
            await asyncio.sleep(max(0.0, self._written_at + EVERY_SECONDS - clock()))
            beats, self._beats = self._beats, {}
            told, self._told = self._told, {}
            self._written_at = clock()
            try:
                async with self._writing:
                    answers = await in_thread(write, beats)
            except OUTAGES as error:
                if not is_outage(error):
                    raise
                logger.warning("%s heartbeats wait for the database: %s", len(beats), error)
                self._beats = {**beats, **self._beats}
                for pk, waiting in told.items():
                    self._told.setdefault(pk, []).extend(waiting)
                continue
            for pk, waiting in told.items():
                for one in waiting:
                    one(answers[pk])

    def _ended(self, job: "asyncio.Task[None]") -> None:
        self._job = None
        if not job.cancelled() and (error := job.exception()) is not None:
            logger.error("Heartbeats were lost because of a mistake in Slipway", exc_info=error)
