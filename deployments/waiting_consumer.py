"""The socket of the badges in the navigation, such as how many approvals wait for the reader."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from deployments.watching.badges import badges_of
from deployments.watching.waiting import waiting_hub
from rbac.models import User
from web.access_news import BROKEN
from web.live import LiveConsumer

LOOK_AGAIN_SECONDS = 10


class WaitingConsumer(LiveConsumer):
    """One reader with a page open; hears the numbers, and again when one changes."""

    shows = "approvals"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person: User | None = None
        self.badges: Mapping[str, int] = {}

    @classmethod
    def refusals(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse nobody who is signed in; all badges are counted, as access decides about them."""
        counts = badges_of([person for _, person in asked])
        for one, person in asked:
            one.person, one.badges = person, counts[person.pk]
        return [None for _ in asked]

    async def follow(self) -> None:
        sent = None
        async with waiting_hub(self) as heard:
            while not heard.is_broken:
                news = heard.news
                if self.badges != sent:
                    sent = self.badges
                    await self.send(text_data=json.dumps(sent))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN_SECONDS)
            await self.close(code=BROKEN)
