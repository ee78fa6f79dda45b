"""Agents and a real web server: what uvicorn makes of sockets, polls and an end."""

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from delegates.models import DelegateInstance, DelegateToken
from delegates.operations.tasks import submit_task
from delegates.operations.tokens import revoke_token
from rbac.models import Scope, User
from tests.delegates.protocol.fake_agents import build_registration
from tests.fixtures.delegates import make_token
from tests.fixtures.processes import _is_up, running, wait_until
from tests.fixtures.time_limits import promised
from tests.ports import free_port

pytestmark = pytest.mark.django_db(transaction=True)
# Twice as fast as promised, and sooner than the first look without a notice.
REVOKED_SECONDS = 1.0


@contextlib.contextmanager
def start_server(environment: Mapping[str, str]) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", port]
    options = ["--ws", "websockets-sansio", "--lifespan", "off", "--log-level", "warning"]
    variables = {"PORT": port, "PUBLIC_URL": url}
    with running(
        [*command, *options, "--timeout-graceful-shutdown", "10"], {**environment, **variables}
    ) as process:
        wait_until(_is_up(url), "the web server's answer")
        yield url, process


# How long an answer may take on a machine that is busy with other things.
PATIENCE = 60


def register(url: str, token: DelegateToken, name: str) -> str:
    response = post(url, "register", build_registration(name), token.value)
    return str(response.json()["session"])


def post(url: str, path: str, body: Mapping[str, Any], bearer: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {bearer}"}
    return httpx.post(f"{url}/agent/v1/{path}", json=body, headers=headers, timeout=30)


def connect_socket(url: str, session: str) -> Any:
    address = url.replace("http", "ws", 1) + "/ws/agent/"
    return connect(address, additional_headers={"Authorization": f"Bearer {session}"}, compression=None)


def receive_close_code(socket: Any) -> int:
    with pytest.raises(ConnectionClosed) as error:
        socket.recv(timeout=PATIENCE)
    close_frame = error.value.rcvd
    assert close_frame is not None
    return int(close_frame.code)


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


def test_a_task_that_another_process_submits_is_told_and_taken(
    child_environment: Mapping[str, str], live_broker: str, token: DelegateToken, project: Scope
):
    with start_server(child_environment) as (url, _):
        session = register(url, token, "eu")
        with connect_socket(url, session) as socket:
            task = submit_task(scope=project, kind="check", title="Look", payload={"url": "https://a.test"})
            notice = socket.recv(timeout=PATIENCE)
            assert str(task.pk) in notice
            assert "a.test" not in notice
            content = post(url, "tasks/acquire", {"wait_seconds": 0, "free": 1}, session).json()
            assert [task_row["params"] for task_row in content["tasks"]] == [{"url": "https://a.test"}]


def test_revoking_closes_sockets_of_every_process_within_two_seconds(
    child_environment: Mapping[str, str], live_broker: str, token: DelegateToken, admin: User
):
    with start_server(child_environment) as (url, _), start_server(child_environment) as (other, _):
        sessions = [register(url, token, name) for name in ("eu", "us")]
        with (
            connect_socket(url, sessions[0]) as first_socket,
            connect_socket(other, sessions[1]) as second_socket,
            promised(REVOKED_SECONDS),
        ):
            revoke_token(actor=admin, token=token)
            assert [receive_close_code(socket) for socket in (first_socket, second_socket)] == [4401, 4401]


def test_a_server_that_ends_lets_sockets_and_polls_go_at_once(
    child_environment: Mapping[str, str], token: DelegateToken
):
    with start_server(child_environment) as (url, process):
        sessions = [register(url, token, name) for name in ("eu", "us")]
        results: list[Any] = []
        body = {"wait_seconds": 50, "free": 1}
        poll = threading.Thread(
            target=lambda: results.append(post(url, "tasks/acquire", body, sessions[0]).json()["tasks"])
        )
        poll.start()
        with connect_socket(url, sessions[1]) as socket:
            wait_until(
                lambda: DelegateInstance.objects.filter(connection="POLLING").exists(), "the poll to wait"
            )
            with promised(5):
                process.send_signal(signal.SIGTERM)
                assert receive_close_code(socket) == 1012
                poll.join(timeout=40)
                process.wait(timeout=40)
        assert results == [[]]
        assert not DelegateInstance.objects.filter(suspect_since__isnull=False).exists()
