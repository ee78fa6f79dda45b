"""Watching: every viewer gets every line once and in order, and one that does not read costs nothing."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from deployments import log
from deployments.consumers import ExecutionConsumer
from deployments.live import LARGEST_FRAME, broadcaster
from deployments.log import storage
from deployments.models import Execution
from rbac.models import User
from tests.deployments.log.conftest import build_lines
from tests.fixtures.sockets import session_of

pytestmark = pytest.mark.django_db(transaction=True)


class Viewer:
    """A browser at the other end of a socket, which reads only while its gate is open."""

    def __init__(self, execution: Execution, user: User, after: int = 0) -> None:
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "query_string": f"after={after}".encode(),
            "url_route": {"kwargs": {"pk": execution.pk}},
        }
        self.user = user
        self.gate = asyncio.Event()
        self.gate.set()
        self.messages: list[dict[str, Any]] = []
        self.largest = 0
        self.code: int | None = None
        self.news = asyncio.Condition()
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.inbox.put_nowait({"type": "websocket.connect"})

    async def send(self, message: dict[str, Any]) -> None:
        await self.gate.wait()
        async with self.news:
            if message["type"] == "websocket.send":
                self.largest = max(self.largest, len(message["text"].encode()))
                self.messages.append(json.loads(message["text"]))
            elif message["type"] == "websocket.close":
                self.code = message["code"]
            self.news.notify_all()

    async def wait_for(self, question: Callable[[], object]) -> None:
        async with asyncio.timeout(20), self.news:
            await self.news.wait_for(question)

    def list_messages(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    @property
    def numbers(self) -> list[int]:
        blocks = [block for message in self.list_messages("lines") for block in message["blocks"]]
        return [block["first"] + index for block in blocks for index in range(len(block["texts"]))]

    @property
    def list_missed(self) -> list[int]:
        """Return the lines that were announced to this viewer and not sent."""
        notices = self.list_messages("skipped")
        return [number for notice in notices for number in range(notice["first"], notice["last"] + 1)]


@asynccontextmanager
async def open_viewer(viewer: Viewer) -> AsyncIterator[Viewer]:
    viewer.scope["session"] = await session_of(viewer.user)
    consumer_task = asyncio.create_task(ExecutionConsumer()(viewer.scope, viewer.inbox.get, viewer.send))
    try:
        yield viewer
    finally:
        viewer.gate.set()
        viewer.inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await consumer_task


@sync_to_async
def write_lines(execution: Execution, count: int, text: str = "line") -> None:
    log.store_lines(execution.pk, build_lines(*(f"{text} {index}" for index in range(count))))


@pytest.fixture
async def watched(live_broker: str, execution: Execution) -> AsyncIterator[Execution]:
    yield execution
    # The thread that reads for the sockets has a connection of its own, which would hold the database open.
    await sync_to_async(connections.close_all)()


async def test_everybody_gets_every_line_once_and_in_order(watched: Execution, admin: User):
    await write_lines(watched, 30)
    async with (
        open_viewer(Viewer(watched, admin)) as early_viewer,
        open_viewer(Viewer(watched, admin)) as other,
    ):
        await early_viewer.wait_for(lambda: len(early_viewer.numbers) == 30)
        for _ in range(20):
            await write_lines(watched, 25)
        async with open_viewer(Viewer(watched, admin, after=500)) as late_viewer:
            for viewer in (early_viewer, other):
                await viewer.wait_for(lambda viewer=viewer: len(viewer.numbers) == 530)
                assert viewer.numbers == list(range(1, 531))
            await late_viewer.wait_for(lambda: 530 in late_viewer.numbers)
            assert [number for number in late_viewer.numbers if number > 500] == list(range(501, 531))


async def test_lines_that_nobody_was_told_of_are_found_by_their_number(
    watched: Execution, admin: User, monkeypatch: pytest.MonkeyPatch
):
    async with open_viewer(Viewer(watched, admin)) as viewer:
        await viewer.wait_for(lambda: viewer.list_messages("state"))
        with monkeypatch.context() as patch:
            patch.setattr(storage, "publish_blocks", lambda *_: None)
            await write_lines(watched, 10)
        await write_lines(watched, 1)
        await viewer.wait_for(lambda: len(viewer.numbers) == 11)
        assert viewer.numbers == list(range(1, 12))


async def test_the_last_lines_are_found_though_nothing_comes_after_them(
    watched: Execution, admin: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(broadcaster, "REFRESH_SECONDS", 0.1)
    monkeypatch.setattr(storage, "publish_blocks", lambda *_: None)
    async with open_viewer(Viewer(watched, admin)) as viewer:
        await viewer.wait_for(lambda: viewer.list_messages("state"))
        await write_lines(watched, 10)
        await viewer.wait_for(lambda: len(viewer.numbers) == 10)


async def test_a_viewer_that_does_not_read_is_told_what_it_missed(watched: Execution, admin: User):
    async with (
        open_viewer(Viewer(watched, admin)) as slow_viewer,
        open_viewer(Viewer(watched, admin)) as quick_viewer,
    ):
        await write_lines(watched, 5)
        await slow_viewer.wait_for(lambda: len(slow_viewer.numbers) == 5)
        slow_viewer.gate.clear()
        for _ in range(30):
            await write_lines(watched, 1000, "x" * 90)
        await quick_viewer.wait_for(lambda: 30_005 in quick_viewer.numbers)
        assert sorted([*quick_viewer.numbers, *quick_viewer.list_missed]) == list(range(1, 30_006))

        slow_viewer.gate.set()
        await slow_viewer.wait_for(lambda: 30_005 in slow_viewer.numbers)
        assert len(slow_viewer.list_missed) > 10_000
        assert sorted({*slow_viewer.numbers, *slow_viewer.list_missed}) == list(range(1, 30_006))


async def test_no_message_is_larger_than_a_frame(watched: Execution, admin: User):
    await write_lines(watched, 600, "é\U0001f600" * 200)
    async with open_viewer(Viewer(watched, admin)) as viewer:
        await viewer.wait_for(lambda: len(viewer.numbers) == 600)
        await write_lines(watched, 600, "é\U0001f600" * 200)
        await viewer.wait_for(lambda: len(viewer.numbers) == 1200)
        assert viewer.largest <= LARGEST_FRAME


async def test_an_execution_that_is_over_ends_its_stream(watched: Execution, admin: User):
    await write_lines(watched, 3)
    async with open_viewer(Viewer(watched, admin)) as viewer:
        await viewer.wait_for(lambda: len(viewer.numbers) == 3)
        end_fields = {"status": "SUCCESS", "ended_at": watched.created_at}
        await Execution.objects.filter(pk=watched.pk).aupdate(**end_fields)
        await sync_to_async(log.publish_log)(watched.pk, {"type": "state.changed"})
        await viewer.wait_for(lambda: viewer.list_messages("end"))
        assert viewer.list_messages("end") == [{"type": "end", "last": 3}]
        assert viewer.list_messages("state")[-1]["state"]["status"] == "SUCCESS"


async def test_buttons_are_those_of_the_viewer(watched: Execution, admin: User, viewer: User):
    async with (
        open_viewer(Viewer(watched, admin)) as admin_viewer,
        open_viewer(Viewer(watched, viewer)) as plain_viewer,
    ):
        await admin_viewer.wait_for(lambda: admin_viewer.list_messages("state"))
        await plain_viewer.wait_for(lambda: plain_viewer.list_messages("state"))
        assert admin_viewer.list_messages("state")[0]["state"]["can"]["abort"] is True
        assert plain_viewer.list_messages("state")[0]["state"]["can"]["abort"] is False


async def test_a_stranger_is_refused(watched: Execution, stranger: User):
    async with open_viewer(Viewer(watched, stranger)) as refused_viewer:
        await refused_viewer.wait_for(lambda: refused_viewer.code)
        assert refused_viewer.code == 4403
        assert refused_viewer.messages == []


async def test_the_last_viewer_takes_the_hub_away(watched: Execution, admin: User):
    loop = asyncio.get_running_loop()
    async with open_viewer(Viewer(watched, admin)) as viewer:
        await viewer.wait_for(lambda: viewer.list_messages("state"))
        assert list(broadcaster._broadcasters[loop]) == [watched.pk]
    assert list(broadcaster._broadcasters[loop]) == []
