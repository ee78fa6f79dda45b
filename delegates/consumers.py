"""The socket of the delegates' pages: rows of delegates, drawn anew whenever they change."""

import asyncio
import contextlib
import json
import logging
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from delegates.queries.delegates import VIEW
from delegates.watching import Hub, shared_hub
from delegates.watching.hub import Change
from rbac.models import User
from rbac.policy import scopes_where

NOT_SIGNED_IN = 4401
FORBIDDEN = 4403
BROKEN = 1011
LOOK_AGAIN_SECONDS = 10
logger = logging.getLogger(__name__)


class DelegatesConsumer(AsyncWebsocketConsumer):
    """One watcher of all delegates that a person may see; it keeps nothing but how far it has sent."""

    # The hub listens; a channel for each viewer would be one more queue to grow.
    channel_layer_alias = "none"

    async def connect(self) -> None:
        self.scopes: frozenset[int] = frozenset()
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
        logger.error("A viewer of delegates was let go", exc_info=error)
        self.jobs = [asyncio.create_task(self.close(code=BROKEN))]

    async def _follow(self) -> None:
        async with shared_hub() as heard:
            sent = heard.number
            await self.send(text_data='{"type":"watching"}')
            while not heard.is_broken:
                news = heard.news
                sent = await self._send_after(heard, sent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN_SECONDS)
            await self.close(code=BROKEN)

    async def _send_after(self, heard: Hub, sent: int) -> int:
        changes = heard.after(sent)
        shown = [_told(one) for one in changes if one.scope_id is None or one.scope_id in self.scopes]
        if shown:
            await self.send(text_data=json.dumps({"type": "delegates", "changed": shown}))
        return changes[-1].number if changes else sent

    async def _look_again(self) -> None:
        """Permission can be taken away: ask for it now and then."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            if (code := await self._check()) is not None:
                await self.close(code=code)
                return

    @database_sync_to_async
    def _check(self) -> int | None:
        """The code to refuse this viewer with, or None; the scopes whose delegates it may see are noted."""
        user = self.scope.get("user")
        if not isinstance(user, User):
            return NOT_SIGNED_IN
        fresh = User.objects.filter(pk=user.pk, is_active=True).first()
        if fresh is None:
            return NOT_SIGNED_IN
        self.scopes = frozenset(scopes_where(fresh, VIEW).values_list("pk", flat=True))
        return None if self.scopes else FORBIDDEN


def _told(change: Change) -> dict[str, Any]:
    """A change as the page takes it; `row` is markup, escaped by its template."""
    facts = change.facts
    if facts is None:
        return {"id": change.pk, "status": None}
    return {
        "id": change.pk,
        "name": facts.name,
        "scope": facts.scope,
        "status": facts.status,
        "row": change.row,
    }
