"""WebSocket consumer of a service's dashboard; it announces changes, and the page fetches them."""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from typing import Any, Self

from catalog.models import Service
from inventory.dashboards.broadcaster import ServiceBroadcaster, open_service_broadcaster
from rbac.models import User
from rbac.policy import Grants, get_resource_locations
from web.live.consumers import CLOSE_FORBIDDEN, LiveConsumer
from web.live.socket_authorization import CLOSE_INTERNAL_ERROR

VIEW_SERVICE = "core_service_view"
ACCESS_CHECK_SECONDS = 10
# The largest key that the databases know.
MAX_KEY = 2**63 - 1


class ServiceDashboardConsumer(LiveConsumer):
    """The connection of one viewer of one service.

    The page fetches the changes itself, since not every viewer sees every environment.
    """

    content_name = "a service"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.service_id = 0

    async def connect(self) -> None:
        self.service_id = min(self.scope["url_route"]["kwargs"]["pk"], MAX_KEY)
        await super().connect()

    @classmethod
    def get_close_codes(cls, asked: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse who may not see the service."""
        places = get_resource_locations(Service, {one.service_id for one, _ in asked})
        grants = Grants(person for _, person in asked)
        return [
            None
            if (place := places.get(one.service_id)) and VIEW_SERVICE in grants.get_permissions(person, place)
            else CLOSE_FORBIDDEN
            for one, person in asked
        ]

    async def stream(self) -> None:
        async with open_service_broadcaster(self.service_id) as hub:
            sent = hub.changes[self.service_id]
            await self._tell("watching")
            while not hub.is_broken:
                news = hub.news
                sent = await self._tell_change(hub, sent)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), ACCESS_CHECK_SECONDS)
            await self.close(code=CLOSE_INTERNAL_ERROR)

    async def _tell_change(self, hub: ServiceBroadcaster, sent: int) -> int:
        now = hub.changes[self.service_id]
        if now != sent:
            await self._tell("changed")
        return now

    async def _tell(self, what: str) -> None:
        await self.send(text_data=json.dumps({"type": what}))
