"""The socket of the execution page: replays the log, then follows it, and tells the state when it changes."""

import asyncio
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from deployments import log
from deployments.models import Execution
from deployments.queries import execution_document
from rbac.models import User
from rbac.policy import can

NOT_SIGNED_IN = 4401
FORBIDDEN = 4403
STATE_EVERY_SECONDS = 0.15
LOOK_AGAIN_SECONDS = 10


class ExecutionConsumer(AsyncJsonWebsocketConsumer):
    """One watcher of one execution.

    Joins the group first and replays from the database afterwards, so nothing falls between; what arrives
    twice is dropped by its number, a gap is filled from the database. Redis is never the truth.
    """

    async def connect(self) -> None:
        self.execution_id = self.scope["url_route"]["kwargs"]["pk"]
        self.sent = self._asked_after()
        self.is_replaying = True
        self.is_over = False
        self.state_wanted = asyncio.Event()
        self.jobs: list[asyncio.Task[None]] = []
        await self.accept()
        if (code := await self._refusal()) is not None:
            await self.close(code=code)
            return
        await self.channel_layer.group_add(log.group_of(self.execution_id), self.channel_name)
        self.state_wanted.set()
        self.jobs = [asyncio.create_task(self._tell_states()), asyncio.create_task(self._look_again())]
        await self._catch_up()
        self.is_replaying = False
        # An execution that is over ends its stream once everything was replayed.
        self.state_wanted.set()

    async def disconnect(self, code: int) -> None:
        for job in self.jobs:
            job.cancel()
        if self.channel_layer is not None and hasattr(self, "execution_id"):
            await self.channel_layer.group_discard(log.group_of(self.execution_id), self.channel_name)

    async def dispatch(self, message: dict[str, Any]) -> None:
        """As Channels does, without its visit to a thread for each message: lines need no database."""
        handler = getattr(self, message["type"].replace(".", "_"), None)
        if handler is not None:
            await handler(message)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """The page has nothing to say."""

    async def log_lines(self, message: dict[str, Any]) -> None:
        """New lines were stored."""
        if self.is_replaying:
            return
        if message["lines"][0]["number"] > self.sent + 1:
            await self._catch_up()
        await self._send_lines(message["lines"])

    async def state_changed(self, _message: dict[str, Any]) -> None:
        """A commit of the engine changed something."""
        self.state_wanted.set()

    async def _send_lines(self, lines: list[Any]) -> None:
        fresh = [line for line in lines if line["number"] > self.sent]
        if fresh:
            self.sent = fresh[-1]["number"]
            await self.send_json({"type": "lines", "lines": fresh})

    async def _catch_up(self) -> None:
        """Send everything that is stored and was not sent."""
        while lines := await self._read():
            await self._send_lines(lines)
            if len(lines) < log.PAGE:
                return

    async def _tell_states(self) -> None:
        """Send the state after it changed, a few times a second at most."""
        while True:
            await self.state_wanted.wait()
            self.state_wanted.clear()
            state = await self._document()
            if state is None:
                await self.close(code=FORBIDDEN)
                return
            await self.send_json({"type": "state", "state": state})
            if state["ended_at"] and not state["can"]["abort"] and not self.is_replaying:
                await self._end(state["last_line"])
            await asyncio.sleep(STATE_EVERY_SECONDS)

    async def _end(self, last: int) -> None:
        await self._catch_up()
        if self.sent >= last:
            await self.send_json({"type": "end", "last": self.sent})

    async def _look_again(self) -> None:
        """Permission can be taken away, and a channel message can be lost: look at both now and then."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            if (code := await self._refusal()) is not None:
                await self.close(code=code)
                return
            await self._catch_up()
            self.state_wanted.set()

    def _asked_after(self) -> int:
        text = parse_qs(self.scope["query_string"].decode("latin-1")).get("after", ["0"])[0]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0

    @database_sync_to_async
    def _refusal(self) -> int | None:
        user = self.scope.get("user")
        if not isinstance(user, User):
            return NOT_SIGNED_IN
        fresh = User.objects.filter(pk=user.pk, is_active=True).first()
        if fresh is None:
            return NOT_SIGNED_IN
        execution = Execution.objects.filter(pk=self.execution_id).select_related("scope").first()
        if execution is None or not can(fresh, "core_pipeline_view", execution):
            return FORBIDDEN
        return None

    @database_sync_to_async
    def _document(self) -> dict[str, Any] | None:
        related = Execution.objects.select_related("pipeline", "scope", "started_by")
        execution = related.filter(pk=self.execution_id).first()
        return None if execution is None else execution_document(execution, self.scope["user"])

    @database_sync_to_async
    def _read(self) -> list[Any]:
        return list(log.read_lines(self.execution_id, after=self.sent))
