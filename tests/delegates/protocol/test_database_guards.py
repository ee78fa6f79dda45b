"""Agents in front of a database that must not be changed: they are told to try again."""

import pytest

from tests.delegates.protocol.asgi_client import Socket, post
from tests.delegates.protocol.fake_agents import Agent
from web import database_guards
from web.http.outages import DatabaseNotUsable

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _guarded(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DatabaseNotUsable("The restore did not finish.")

    monkeypatch.setattr(database_guards, "_write_guards", [refuse])


@pytest.mark.usefixtures("_guarded")
async def test_requests_are_answered_503_with_the_reason(agent: Agent) -> None:
    status, content, headers = await post("/agent/v1/tasks/acquire", {"free": 1}, agent.session)
    assert (status, content["code"], headers["retry-after"]) == (503, "not_available", "5")
    assert content["detail"] == "The restore did not finish."


@pytest.mark.usefixtures("_guarded")
async def test_sockets_are_closed_with_the_code_to_come_again(agent: Agent) -> None:
    socket = Socket(agent.session)
    assert (await socket.open())["type"] == "websocket.accept"
    assert (await socket.receive())["reason"] == "not_available"
