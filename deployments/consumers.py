"""The socket of the execution page: replays the log, then follows it, and tells the state when it changes."""

import asyncio
import contextlib
import json
import logging
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from deployments import log
from deployments.models import Execution
from deployments.queries import Rights, rights_on
from deployments.watching import LARGEST_FRAME, Hub, frames_of, hub_of
from rbac.models import User
from rbac.policy import can

NOT_SIGNED_IN = 4401
FORBIDDEN = 4403
BROKEN = 1011
LOOK_AGAIN_SECONDS = 10
# A viewer that is farther behind is told what it missed, and asks for it when somebody looks there.
MOST_BEHIND = 2000
logger = logging.getLogger(__name__)


class ExecutionConsumer(AsyncWebsocketConsumer):
    """One watcher of one execution.

    It keeps no lines of its own: it knows how far it has sent, takes frames that all viewers share from the
    hub, and older lines from the database. So a viewer that does not read costs nothing but its place.
    """

    # The hub listens; a channel for each viewer would be one more queue to grow.
    channel_layer_alias = "none"

    async def connect(self) -> None:
        self.execution_id = self.scope["url_route"]["kwargs"]["pk"]
        self.sent = self._asked_after()
        self.is_replaying = True
        self.has_ended = False
        self.state_sent: object = None
        self.rights = Rights(abort=False, run=False)
        self.jobs: list[asyncio.Task[None]] = []
        await self.accept()
        if (code := await self._check()) is not None:
            await self.close(code=code)
            return
        self.jobs = [asyncio.create_task(job) for job in (self._follow(), self._look_again())]
        for job in self.jobs:
            job.add_done_callback(self._job_ended)

    async def disconnect(self, code: int) -> None:
        for job in getattr(self, "jobs", []):
            job.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """The page has nothing to say."""

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """A viewer who leaves in the middle of a message is no trouble; whatever else broke is said."""
        error = None if job.cancelled() else job.exception()
        if error is None or isinstance(error, OSError):
            return
        logger.error("A viewer of execution %s was let go", self.execution_id, exc_info=error)
        self.jobs = [asyncio.create_task(self.close(code=BROKEN))]

    async def _follow(self) -> None:
        async with hub_of(self.execution_id) as hub:
            self.sent = min(self.sent, hub.last)
            while not hub.is_gone and not hub.is_broken:
                news = hub.news
                await self._send_state(hub)
                await self._send_lines(hub)
                await self._send_end(hub)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN_SECONDS)
            await self.close(code=FORBIDDEN if hub.is_gone else BROKEN)

    async def _send_lines(self, hub: Hub) -> None:
        """Send everything up to the newest line, or leave out what has become too much."""
        while self.sent < hub.last:
            frame = hub.recent.holding(self.sent + 1)
            if frame is not None:
                await self.send(text_data=frame.text)
                self.sent = frame.last
            elif self.is_replaying or hub.last - self.sent <= MOST_BEHIND:
                await self._replay(hub.last)
            else:
                await self._skip(hub)
        self.is_replaying = False

    async def _replay(self, until: int) -> None:
        blocks = await self._read()
        for frame in frames_of(blocks):
            await self.send(text_data=frame.text)
            self.sent = frame.last
        if not blocks:
            # What is not stored any more is not waited for.
            self.sent = until

    async def _skip(self, hub: Hub) -> None:
        newest = hub.recent.newest
        until = newest.first - 1 if newest is not None else hub.last
        skipped = {"type": "skipped", "first": self.sent + 1, "last": until}
        await self.send(text_data=json.dumps(skipped))
        self.sent = until

    async def _send_state(self, hub: Hub) -> None:
        if hub.state is None:
            return
        shown = (hub.state.facts, self.rights)
        if shown != self.state_sent:
            self.state_sent = shown
            await self.send(text_data=hub.state.message(self.rights))

    async def _send_end(self, hub: Hub) -> None:
        over = hub.state is not None and hub.state.is_over and self.sent >= hub.state.last_line
        if over and not self.has_ended:
            await self.send(text_data=json.dumps({"type": "end", "last": self.sent}))
        self.has_ended = over

    async def _look_again(self) -> None:
        """Permission can be taken away: ask for it now and then."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            if (code := await self._check()) is not None:
                await self.close(code=code)
                return

    def _asked_after(self) -> int:
        text = parse_qs(self.scope["query_string"].decode("latin-1")).get("after", ["0"])[0]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0

    @database_sync_to_async
    def _check(self) -> int | None:
        """The code to refuse this viewer with, or None; what it may do is noted."""
        user = self.scope.get("user")
        if not isinstance(user, User):
            return NOT_SIGNED_IN
        fresh = User.objects.filter(pk=user.pk, is_active=True).first()
        if fresh is None:
            return NOT_SIGNED_IN
        execution = Execution.objects.filter(pk=self.execution_id).select_related("scope").first()
        if execution is None or not can(fresh, "core_pipeline_view", execution):
            return FORBIDDEN
        self.rights = rights_on(execution, fresh)
        return None

    @database_sync_to_async
    def _read(self) -> list[log.Block]:
        return log.blocks_after(self.execution_id, self.sent, most_bytes=LARGEST_FRAME)
