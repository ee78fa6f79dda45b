"""The socket of the delegates' pages: rows of delegates, drawn anew whenever they change."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Self

from delegates.queries.delegates import VIEW
from delegates.watching import Hub, shared_hub
from delegates.watching.hub import Change
from rbac.models import User
from rbac.policy import Grants
from web.access_news import BROKEN
from web.live import FORBIDDEN, LiveConsumer

LOOK_AGAIN_SECONDS = 10


class DelegatesConsumer(LiveConsumer):
    """One watcher of all delegates that a person may see; it keeps nothing but how far it has sent."""

    shows = "delegates"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scopes: frozenset[int] = frozenset()

    @classmethod
    def refusals(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse who has no scope; the scopes whose delegates may be seen are noted."""
        grants = Grants(person for _, person in asked)
        for one, person in asked:
            one.scopes = grants.scopes_where(person, VIEW)
        return [None if one.scopes else FORBIDDEN for one, _ in asked]

    async def follow(self) -> None:
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
