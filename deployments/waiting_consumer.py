"""The socket of the badge in the navigation: how many approvals wait for the reader."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Self

from deployments.approval_queries import waiting_counts
from deployments.watching.waiting import waiting_hub
from rbac.models import User
from web.access_news import BROKEN
from web.live import LiveConsumer

LOOK_AGAIN_SECONDS = 10


class WaitingConsumer(LiveConsumer):
    """One reader with a page open; hears a number, and the next one when it changes."""

    shows = "approvals"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person: User | None = None
        self.waiting = 0

    @classmethod
    def refusals(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse nobody who is signed in; what waits for each is counted, as access decides about it."""
        counts = waiting_counts([person for _, person in asked])
        for one, person in asked:
            one.person, one.waiting = person, counts[person.pk]
        return [None for _ in asked]

    async def follow(self) -> None:
        sent = None
        async with waiting_hub(self) as heard:
            while not heard.is_broken:
                news = heard.news
                if self.waiting != sent:
                    sent = self.waiting
                    await self.send(text_data=json.dumps({"waiting": sent}))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN_SECONDS)
            await self.close(code=BROKEN)
