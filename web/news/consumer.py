"""The socket of pages that show what changes by itself: says which of their topics have changed."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Final, Self
from urllib.parse import parse_qs

from guards.limits import SOCKET_TOPICS
from rbac.models import User
from rbac.policy import Grants
from web.access_news import BROKEN
from web.live import FORBIDDEN, LiveConsumer
from web.news.hub import Hub, news_hub
from web.news.subjects import Subject, may_listen, subject_of

# So often a page hears that it is still connected: a browser does not tell it.
STILL_EVERY_SECONDS: Final = 30
LONGEST_TOPIC: Final = 128
# A page that does not say how old it is, is read again.
OLD: Final = 10.0**9


class NewsConsumer(LiveConsumer):
    """One page. It hears that a topic has changed, never what: the page is read again as its reader may."""

    shows = "news"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked: frozenset[str] = frozenset()
        self.age = OLD
        self.person: User | None = None
        self.grants: Grants | None = None
        self.allowed: frozenset[str] = frozenset()

    async def connect(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        self.asked = frozenset(
            one for one in query.get("topic", [])[:SOCKET_TOPICS] if len(one) <= LONGEST_TOPIC
        )
        self.age = _seconds(query.get("age", [""])[0])
        await super().connect()

    @classmethod
    def refusals(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse who may hear of none of what they ask for; of what, and with which grants, is noted."""
        audiences = may_listen({topic for one, _ in asked for topic in one.asked})
        grants = Grants(person for _, person in asked)
        for one, person in asked:
            one.person, one.grants = person, grants
            one.allowed = frozenset(
                topic
                for topic in one.asked
                if topic in audiences and audiences[topic].includes(person, grants)
            )
        return [None if one.allowed else FORBIDDEN for one, _ in asked]

    async def follow(self) -> None:
        subjects = self._subjects()
        read_at = asyncio.get_running_loop().time() - self.age
        async with news_hub(subjects) as hub:
            position = None if hub.is_broken else hub.position_at(read_at, subjects)
            await self._tell("watching", stale=position is None)
            sent = hub.number if position is None else position
            while not hub.is_broken:
                news = hub.news
                sent = await self._tell_after(hub, sent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), STILL_EVERY_SECONDS)
                    continue
                await self._tell("still")
            await self.close(code=BROKEN)

    def _subjects(self) -> list[Subject]:
        found = {one.name: one for topic in self.asked if (one := subject_of(topic)) is not None}
        return list(found.values())

    async def _tell_after(self, hub: Hub, sent: int) -> int:
        changes = hub.after(sent)
        if changes is None:
            await self._tell("changed", topics=sorted(self.allowed))
            return hub.number
        if not changes:
            return sent
        # Looked at before anything is left out: meanwhile access may have become less.
        await self.settled()
        person, grants = self.person, self.grants
        if person is not None and grants is not None:
            topics = {
                topic
                for one in changes
                if not self.allowed.isdisjoint(one.topics) and one.audience.includes(person, grants)
                for topic in one.topics & self.allowed
            }
            if topics:
                await self._tell("changed", topics=sorted(topics))
        return changes[0].number

    async def _tell(self, what: str, **more: Any) -> None:
        await self.send(text_data=json.dumps({"type": what, **more}))


def _seconds(text: str) -> float:
    """How old a page is, in seconds with a margin for its way here."""
    return int(text) + 1.0 if text.isascii() and text.isdigit() and len(text) < 9 else OLD
