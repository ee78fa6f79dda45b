"""The socket of a service's dashboard: says that something of it has changed; the page reads what."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Self

from catalog.models import Service
from inventory.dashboards.watching import ServicesHub, services_hub
from rbac.models import User
from rbac.policy import Grants, places_of
from web.access_news import BROKEN
from web.live import FORBIDDEN, LiveConsumer

VIEW = "core_service_view"
LOOK_AGAIN_SECONDS = 10
# The largest key that the databases know.
LARGEST_KEY = 2**63 - 1


class ServiceConsumer(LiveConsumer):
    """One watcher of one service. What changed the page asks: not everybody sees every environment."""

    shows = "a service"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.service_id = 0

    async def connect(self) -> None:
        self.service_id = min(self.scope["url_route"]["kwargs"]["pk"], LARGEST_KEY)
        await super().connect()

    @classmethod
    def refusals(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse who may not see the service."""
        places = places_of(Service, {one.service_id for one, _ in asked})
        grants = Grants(person for _, person in asked)
        return [
            None
            if (place := places.get(one.service_id)) and VIEW in grants.permissions_at(person, place)
            else FORBIDDEN
            for one, person in asked
        ]

    async def follow(self) -> None:
        async with services_hub(self.service_id) as hub:
            sent = hub.changes[self.service_id]
            await self._tell("watching")
            while not hub.is_broken:
                news = hub.news
                sent = await self._tell_change(hub, sent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN_SECONDS)
            await self.close(code=BROKEN)

    async def _tell_change(self, hub: ServicesHub, sent: int) -> int:
        now = hub.changes[self.service_id]
        if now != sent:
            await self._tell("changed")
        return now

    async def _tell(self, what: str) -> None:
        await self.send(text_data=json.dumps({"type": what}))
