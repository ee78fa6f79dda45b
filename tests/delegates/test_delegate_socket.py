"""The socket of the delegates' list: who may listen, and what is heard when a delegate changes."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from config.urls import websocket_urlpatterns
from delegates import live
from delegates.consumers import get_delegate_broadcaster
from delegates.models import Delegate
from delegates.queries.delegates import DelegateFacts
from rbac.models import RoleAssignment, Scope, User
from rbac.policy import Principal
from tests.fixtures.delegates import make_delegate, make_instance
from tests.fixtures.sockets import session_of

# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60
pytestmark = pytest.mark.django_db(transaction=True)


class Socket(ApplicationCommunicator):
    """A browser's end of the socket."""

    def __init__(self, person: Principal) -> None:
        scope = {"type": "websocket", "path": "/ws/delegates/", "query_string": b"", "headers": []}
        super().__init__(URLRouter(websocket_urlpatterns), scope)
        self.person = person

    async def open(self) -> dict[str, Any]:
        """The first message after the server took the socket."""
        self.scope["session"] = await session_of(self.person)
        await self.send_input({"type": "websocket.connect"})
        assert (await self.receive_output(PATIENCE))["type"] == "websocket.accept"
        return dict(await self.receive_output(PATIENCE))

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(PATIENCE)


async def opened(person: Principal) -> Socket:
    socket = Socket(person)
    assert await socket.open() == {"type": "websocket.send", "text": '{"type":"watching"}'}
    return socket


async def heard(socket: Socket) -> dict[str, Any]:
    """The delegates that the next message tells of, by name."""
    message = json.loads((await socket.receive_output(PATIENCE))["text"])
    assert message["type"] == "delegates"
    return {one.get("name"): one for one in message["changed"]}


@database_sync_to_async
def silence(delegate: Delegate) -> None:
    """Its instances were heard three minutes ago, and whoever watches is told."""
    delegate.instances.update(last_heartbeat_at=timezone.now() - timedelta(minutes=3))
    live.publish_delegates_changed(delegate.pk)


async def test_a_delegate_that_falls_silent_is_told_with_its_row(project: Scope, viewer: User) -> None:
    delegate = await database_sync_to_async(make_delegate)(project, "<b>eu</b>")
    await database_sync_to_async(make_instance)(delegate)
    socket = await opened(viewer)
    await silence(delegate)
    told = (await heard(socket))["<b>eu</b>"]
    assert told["status"] == "DISCONNECTED"
    assert f'data-delegate="{delegate.pk}" data-status="DISCONNECTED"' in told["row"]
    assert "&lt;b&gt;eu" in told["row"]
    await socket.leave()


async def test_nobody_hears_of_delegates_that_they_may_not_see(
    project: Scope, other_project: Scope, viewer: User, stranger: User
) -> None:
    delegate = await database_sync_to_async(make_delegate)(project, "eu")
    await database_sync_to_async(make_instance)(delegate)
    mine, theirs = await opened(viewer), await opened(stranger)
    await silence(delegate)
    assert "eu" in await heard(mine)
    # The two share a hub: what was told to the one would have been told to the other by now.
    assert await theirs.receive_nothing(0.3)
    await database_sync_to_async(make_delegate)(other_project, "yours")
    await asyncio.gather(mine.leave(), theirs.leave())


async def test_only_people_with_a_scope_may_listen(project: Scope, viewer: User) -> None:
    codes = []
    nobody = await database_sync_to_async(User.objects.create_user)("nobody")
    for person in (AnonymousUser(), nobody):
        codes.append((await Socket(person).open())["code"])
    assert codes == [4401, 4403]


async def test_who_loses_every_role_is_let_go(
    project: Scope, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.live.socket_authorization.RECHECK_SECONDS", 0.05)
    socket = await opened(viewer)
    await database_sync_to_async(RoleAssignment.objects.filter(user=viewer).delete)()
    assert await socket.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4403}


async def test_what_nobody_told_is_found_all_the_same(
    project: Scope, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delegates.consumers.SCAN_INTERVAL_SECONDS", 0.1)
    delegate = await database_sync_to_async(make_delegate)(project, "eu")
    socket = await opened(viewer)
    await database_sync_to_async(Delegate.objects.create)(scope=project, name="new")
    assert (await heard(socket))["new"]["status"] == "NEVER_CONTACTED"
    await database_sync_to_async(delegate.delete)()
    told = await heard(socket)
    assert [one["status"] for one in told.values()] == [None]
    await socket.leave()


async def test_a_change_is_read_once_for_any_number_of_viewers(
    project: Scope, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    delegate = await database_sync_to_async(make_delegate)(project, "eu")
    await database_sync_to_async(make_instance)(delegate)
    reads: list[set[int] | None] = []
    async with get_delegate_broadcaster() as shared:
        read = shared._read

        async def noted(named: set[int] | None) -> list[DelegateFacts]:
            reads.append(named)
            return await read(named)

        monkeypatch.setattr(shared, "_read", noted)
        sockets = [await opened(viewer) for _ in range(5)]
        await silence(delegate)
        told = [await heard(socket) for socket in sockets]
        assert all("eu" in one for one in told)
        assert [one for one in reads if one is not None] == [{delegate.pk}]
        await asyncio.gather(*(socket.leave() for socket in sockets))
