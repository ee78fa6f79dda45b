"""The socket to the manager, and the pauses between attempts to open it."""

import threading
from types import SimpleNamespace
from typing import cast

import pytest
from websockets.sync.server import ServerConnection, serve

from delegates.agent.agent import Agent, ProtocolLimits
from delegates.agent.manager_socket import listen_to_manager

TRY_AGAIN_LATER = 1013


class Pauses(threading.Event):
    """The end of an agent after five pauses, which it keeps and does not wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0)
        if len(self.seconds) == 5:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(("has_message", "lowest", "highest"), [(False, 4, 8), (True, 0.25, 0.5)])
def test_pauses_grow_until_the_manager_has_sent_something(
    has_message: bool, lowest: float, highest: float
) -> None:
    def answer(connection: ServerConnection) -> None:
        if has_message:
            connection.send("{}")
        connection.close(TRY_AGAIN_LATER, "not_available")

    with serve(answer, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        agent = SimpleNamespace(
            ended=Pauses(),
            limits=ProtocolLimits(),
            manager=SimpleNamespace(session="s"),
            settings=SimpleNamespace(manager_url=url),
            tls=None,
            **{
                name: threading.Event()
                for name in ("registered", "socket_tried", "poll_tasks_now", "beat_now")
            },
        )
        agent.registered.set()
        listen_to_manager(cast(Agent, agent))
        server.shutdown()
    assert lowest <= agent.ended.seconds[-1] <= highest
