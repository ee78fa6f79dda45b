"""WebSocket consumers of the execution page and of the navigation badges."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import parse_qs

from channels.db import database_sync_to_async

from deployments import log
from deployments.execution.documents import ExecutionRights, build_rights
from deployments.live import LARGEST_FRAME, ExecutionBroadcaster, build_frames, get_execution_broadcaster
from deployments.live.badges import BADGE_SOURCE, count_badges, get_badge_counts
from deployments.models import Execution
from rbac.models import User
from rbac.policy import Grants, ResourceLocation, get_resource_locations
from web.live.broadcaster import watch_sources
from web.live.consumers import CLOSE_FORBIDDEN, KEEPALIVE_SECONDS, LiveConsumer
from web.live.socket_authorization import CLOSE_INTERNAL_ERROR

VIEW = "core_pipeline_view"
STATE_REFRESH_SECONDS = 10
# A viewer that is farther behind is told what it missed, and asks for it when somebody looks there.
MOST_BEHIND = 2000


class ExecutionConsumer(LiveConsumer):
    """Socket of one viewer of one execution.

    It stores no lines, only its position. New lines come from the broadcaster in shared frames, older ones
    from the database. So a viewer that does not read costs only its position.
    """

    content_name = "an execution"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_replaying = True
        self.has_ended = False
        self.state_sent: object = None
        self.rights = ExecutionRights(abort=False, run=False)

    async def connect(self) -> None:
        self.execution_id = self.scope["url_route"]["kwargs"]["pk"]
        self.sent = self._parse_resume_line()
        await super().connect()

    @classmethod
    def get_close_codes(cls, sockets: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Refuse users without view access to the execution, and store the rights of the others."""
        places = get_resource_locations(Execution, {consumer.execution_id for consumer, _ in sockets})
        grants = Grants(person for _, person in sockets)
        return [
            consumer._get_close_code(grants, person, places.get(consumer.execution_id))
            for consumer, person in sockets
        ]

    def _get_close_code(self, grants: Grants, person: User, place: ResourceLocation | None) -> int | None:
        granted = frozenset() if place is None else grants.get_permissions(person, place)
        self.rights = build_rights(granted)
        return None if VIEW in granted else CLOSE_FORBIDDEN

    async def stream(self) -> None:
        async with get_execution_broadcaster(self.execution_id) as hub:
            self.sent = min(self.sent, hub.last)
            while not hub.is_gone and not hub.is_broken:
                changed = hub.changed
                await self._send_state(hub)
                await self._send_lines(hub)
                await self._send_end(hub)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), STATE_REFRESH_SECONDS)
            await self.close(code=CLOSE_FORBIDDEN if hub.is_gone else CLOSE_INTERNAL_ERROR)

    async def _send_lines(self, hub: ExecutionBroadcaster) -> None:
        """Send all lines up to the newest one, or skip them above the limit."""
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
        for frame in build_frames(blocks):
            await self.send(text_data=frame.text)
            self.sent = frame.last
        if not blocks:
            # What is not stored any more is not waited for.
            self.sent = until

    async def _skip(self, hub: ExecutionBroadcaster) -> None:
        newest = hub.recent.newest
        until = newest.first - 1 if newest is not None else hub.last
        skipped = {"type": "skipped", "first": self.sent + 1, "last": until}
        await self.send(text_data=json.dumps(skipped))
        self.sent = until

    async def _send_state(self, hub: ExecutionBroadcaster) -> None:
        if hub.state is None:
            return
        state = (hub.state.facts, self.rights)
        if state != self.state_sent:
            self.state_sent = state
            await self.send(text_data=hub.state.message(self.rights))

    async def _send_end(self, hub: ExecutionBroadcaster) -> None:
        over = hub.state is not None and hub.state.is_over and self.sent >= hub.state.last_line
        if over and not self.has_ended:
            await self.send(text_data=json.dumps({"type": "end", "last": self.sent}))
        self.has_ended = over

    def _parse_resume_line(self) -> int:
        text = parse_qs(self.scope["query_string"].decode("latin-1")).get("after", ["0"])[0]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0

    @database_sync_to_async
    def _read(self) -> list[log.LogBlock]:
        return log.list_blocks(self.execution_id, self.sent, most_bytes=LARGEST_FRAME)


BADGE_REFRESH_SECONDS = 10


class BadgeConsumer(LiveConsumer):
    """Socket of one user's badges; it receives the numbers, every change, and the same numbers after a pause.

    Without a repetition the page cannot tell a connection that was lost from one without changes.
    """

    content_name = "approvals"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person: User | None = None
        self.badges: Mapping[str, int] = {}

    @classmethod
    def get_close_codes(cls, sockets: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Accept all signed-in users; the badges are counted by their permissions."""
        counts = count_badges([person for _, person in sockets])
        for consumer, person in sockets:
            consumer.person, consumer.badges = person, counts[person.pk]
        return [None for _ in sockets]

    async def stream(self) -> None:
        person = self.person
        if person is None:
            return
        key, sent, sent_at = str(person.pk), None, 0.0
        clock = asyncio.get_running_loop().time
        async with watch_sources([BADGE_SOURCE], [f"{BADGE_SOURCE.name}:{key}"]) as hub:
            snapshots = hub.get_snapshots(BADGE_SOURCE, key)
            while not hub.is_broken:
                change_event = hub.change_event
                # The numbers also change with access, which is checked beside this.
                if (new_snapshots := hub.get_snapshots(BADGE_SOURCE, key)) != snapshots:
                    snapshots = new_snapshots
                    self.badges = get_badge_counts(new_snapshots)
                if self.badges != sent or clock() - sent_at >= KEEPALIVE_SECONDS:
                    sent, sent_at = self.badges, clock()
                    await self.send(text_data=json.dumps(sent))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(change_event.wait(), BADGE_REFRESH_SECONDS)
            await self.close(code=CLOSE_INTERNAL_ERROR)
