"""Agents at the door: sockets that tell, polls that wait, and what is refused before anything is read."""

import gzip
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from delegates.models import Delegate, DelegateInstance, DelegateTask, DelegateToken
from delegates.operations.tokens import revoke_token
from delegates.protocol import broadcaster
from delegates.protocol.connections import _record_contact, record_connect
from delegates.protocol.limits import ROTATE_BEFORE, ROTATION_GRACE, SESSION
from delegates.protocol.notices import notify_abort, notify_configuration, notify_drain, notify_task
from delegates.protocol.requests import run_in_thread
from guards.limits import AGENT_BYTES, AGENT_LOG_REQUESTS
from rbac.models import Scope, User
from tests.delegates.protocol.asgi_client import Call, Socket, post, wait_for_value
from tests.delegates.protocol.fake_agents import Agent, build_registration, offer_task, register_agent
from tests.fixtures.delegates import make_token

pytestmark = pytest.mark.django_db(transaction=True)
ACCEPT_MESSAGE = {"type": "websocket.accept"}


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


async def send_heartbeat(socket: Socket, **values: Any) -> dict[str, Any]:
    await socket.send({"type": "heartbeat", "running": [], "memory_mib": 50, **values})
    return await socket.receive()


async def test_a_session_opens_a_socket_that_hears_of_tasks_and_nothing_of_what_they_are(agent: Agent):
    socket = Socket(agent.session)
    assert await socket.open() == ACCEPT_MESSAGE
    task = await run_in_thread(offer_task, agent)
    await run_in_thread(notify_task, agent.instance.delegate_id, task.pk)
    assert await socket.receive() == {"type": "task_available", "task_id": str(task.pk)}
    await run_in_thread(notify_abort, agent.instance.pk, task.pk)
    assert await socket.receive() == {"type": "task_aborted", "task_id": str(task.pk)}
    await run_in_thread(notify_drain, agent.instance.delegate_id)
    assert await socket.receive() == {"type": "drain"}
    await run_in_thread(notify_configuration, [agent.instance.delegate_id])
    assert await socket.receive() == {"type": "configuration_changed"}
    await socket.close()


async def test_a_notice_that_got_lost_is_found_by_the_next_look(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(broadcaster, "SCAN_INTERVAL_SECONDS", 0.05)
    socket = Socket(agent.session)
    await socket.open()
    offer_expiry = timezone.now() + timedelta(minutes=1)
    task = await run_in_thread(lambda: offer_task(agent, offered_until=offer_expiry))
    assert await socket.receive() == {"type": "task_available", "task_id": str(task.pk)}
    await socket.close()


def build_connection_query(agent: Agent) -> Callable[[], tuple[str, bool]]:
    def get_connection() -> tuple[str, bool]:
        instance = DelegateInstance.objects.get(pk=agent.instance.pk)
        return instance.connection, instance.suspect_since is not None

    return get_connection


async def test_a_socket_that_closes_makes_its_instance_suspect_until_it_is_heard_again(agent: Agent):
    socket = Socket(agent.session)
    await socket.open()
    await wait_for_value(build_connection_query(agent), ("WEBSOCKET", False))
    await socket.close(1006)
    await wait_for_value(build_connection_query(agent), ("WEBSOCKET", True))
    second_socket = Socket(agent.session)
    await second_socket.open()
    await wait_for_value(build_connection_query(agent), ("WEBSOCKET", False))
    await second_socket.close(1006)
    await post("/agent/v1/tasks/acquire", {"wait_seconds": 0.1, "free": 1}, agent.session)
    await wait_for_value(build_connection_query(agent), ("POLLING", False))


def test_a_poll_that_began_before_the_socket_does_not_hide_it(agent: Agent):
    before = agent.instance
    record_connect(agent.session)
    _record_contact(before, polls=True)
    assert build_connection_query(agent)() == ("WEBSOCKET", False)


async def test_an_agent_cannot_say_that_the_server_ends(agent: Agent, token: DelegateToken):
    socket, other = Socket(agent.session), await run_in_thread(register_agent, token, "us")
    await socket.open()
    poll = Call("/agent/v1/tasks/acquire", {"wait_seconds": 20, "free": 1}, other.session)
    await poll.start()
    await socket.close(1012)
    await wait_for_value(build_connection_query(agent), ("WEBSOCKET", True))
    task = await run_in_thread(offer_task, other)
    await run_in_thread(notify_task, other.instance.delegate_id, task.pk)
    assert len((await poll.read_response())[1]["tasks"]) == 1


async def test_a_heartbeat_is_answered_once_it_is_written(agent: Agent):
    task = await run_in_thread(offer_task, agent)
    await run_in_thread(agent.acquire)
    socket = Socket(agent.session)
    await socket.open()
    lost_task_id = "6c1a3c1e-93f0-4a4e-9f0b-0d4ab1a3f001"
    reply = await send_heartbeat(
        socket,
        running=[{"id": str(task.pk), "fence": 1}, {"id": lost_task_id, "fence": 1}],
        cpu_process=12.5,
        max_executing=3,
    )
    assert (reply["type"], reply["lost"], reply["aborted"]) == ("heartbeat_ack", [lost_task_id], [])
    assert (reply["drain"], reply["session"]) == (False, None)
    instance = await run_in_thread(DelegateInstance.objects.get)
    assert (instance.cpu_process, instance.memory_mib) == (12.5, 50)
    assert (instance.running, instance.max_executing) == (2, 3)
    assert await run_in_thread(instance.samples.count) == 1
    await run_in_thread(lambda: DelegateTask.objects.update(abort_requested=True))
    await run_in_thread(lambda: Delegate.objects.update(draining=True))
    reply = await send_heartbeat(socket, running=[{"id": str(task.pk), "fence": 1}], draining=True)
    assert (reply["aborted"], reply["drain"]) == ([str(task.pk)], True)
    assert (await run_in_thread(DelegateInstance.objects.get)).status == "DRAINING"
    await socket.close()


async def test_a_heartbeat_by_post_says_the_same(agent: Agent):
    status, content, _ = await post("/agent/v1/heartbeat", {"running": [], "memory_mib": 1}, agent.session)
    assert status == 200
    assert set(content) == {"aborted", "lost", "drain", "session", "session_expires_in", "configuration"}


async def test_sessions_are_renewed_by_heartbeats_and_the_one_before_ends(agent: Agent):
    near_expiry = timezone.now() + ROTATE_BEFORE - timedelta(seconds=1)
    await run_in_thread(lambda: DelegateInstance.objects.update(session_expires_at=near_expiry))
    _, content, _ = await post("/agent/v1/heartbeat", {"running": []}, agent.session)
    assert content["session_expires_in"] > ROTATE_BEFORE.total_seconds()
    body = {"wait_seconds": 0, "free": 1}
    for session in (agent.session, content["session"]):
        assert (await post("/agent/v1/tasks/acquire", body, session))[0] == 200
    rotation_expiry = timezone.now() + SESSION - ROTATION_GRACE - timedelta(seconds=1)
    await run_in_thread(lambda: DelegateInstance.objects.update(session_expires_at=rotation_expiry))
    assert (await post("/agent/v1/tasks/acquire", body, agent.session))[0] == 401
    assert (await post("/agent/v1/tasks/acquire", body, content["session"]))[0] == 200


async def test_revoking_a_token_closes_its_sockets_and_ends_its_polls(
    agent: Agent, token: DelegateToken, admin: User
):
    socket = Socket(agent.session)
    await socket.open()
    poll = Call("/agent/v1/tasks/acquire", {"wait_seconds": 20, "free": 1}, agent.session)
    await poll.start()
    await run_in_thread(lambda: revoke_token(actor=admin, token=token))
    assert await socket.receive() == {"type": "websocket.close", "code": 4401, "reason": "token_revoked"}
    status, problem, _ = await poll.read_response()
    assert (status, problem["code"]) == (403, "token_revoked")
    assert (await run_in_thread(DelegateInstance.objects.get)).suspect_since is None
    await socket.close(4401)


async def test_a_revoked_token_is_found_without_a_notice(
    agent: Agent, token: DelegateToken, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(broadcaster, "SCAN_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(broadcaster, "SCANS_PER_SESSION_CHECK", 1)
    socket = Socket(agent.session)
    await socket.open()
    revoked = {"status": "REVOKED", "revoked_at": timezone.now()}
    await run_in_thread(lambda: DelegateToken.objects.filter(pk=token.pk).update(**revoked))
    assert (await socket.receive())["code"] == 4401
    await socket.close(4401)


async def test_registering_again_closes_the_socket_of_the_session_before(agent: Agent, token: DelegateToken):
    socket = Socket(agent.session)
    await socket.open()
    await run_in_thread(register_agent, token)
    assert await socket.receive() == {"type": "websocket.close", "code": 4401, "reason": "session_invalid"}
    await socket.close(4401)


@pytest.mark.parametrize("bearer", ["", "slp_ses_1_x", "token", "theirs", "expired"])
async def test_a_socket_without_a_good_session_is_closed(agent: Agent, token: DelegateToken, bearer: str):
    if bearer == "expired":
        await run_in_thread(lambda: DelegateInstance.objects.update(session_expires_at=timezone.now()))
    number, secret = agent.session.removeprefix("slp_ses_").split("_", 1)
    forged_session = {
        "token": token.value,
        "theirs": f"slp_ses_{int(number) + 1}_{secret}",
        "expired": agent.session,
    }.get(bearer, bearer)
    socket = Socket(forged_session)
    assert await socket.open() == ACCEPT_MESSAGE
    assert await socket.receive() == {"type": "websocket.close", "code": 4401, "reason": "session_invalid"}


async def test_browsers_do_not_get_in_where_agents_do_nor_agents_where_browsers_do(agent: Agent):
    close_message = {"type": "websocket.close", "code": 4403}
    assert await Socket(agent.session, origin="http://127.0.0.1:8000").open() == close_message
    path = "/ws/executions/6c1a3c1e-93f0-4a4e-9f0b-0d4ab1a3f001/"
    assert await Socket(agent.session, path).open() == close_message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("not json", 4400),
        ("[]", 4400),
        ('{"type": "heartbeat", "running": "all"}', 4400),
        ('{"type": "heartbeat", "cpu_process": NaN}', 4400),
        ('{"type": "heartbeat", "running": [{"id": "x", "fence": 1}]}', 4400),
        ("[" * 60_000, 4400),
        (" " * 70_000, 1009),
    ],
)
async def test_a_socket_that_says_nonsense_is_closed(agent: Agent, text: str, code: int):
    socket = Socket(agent.session)
    await socket.open()
    await socket.send(text)
    assert (await socket.receive())["code"] == code
    await socket.close(code)


async def test_a_poll_waits_for_a_task_and_says_how_long_it_was_held(agent: Agent):
    call = Call("/agent/v1/tasks/acquire", {"wait_seconds": 20, "free": 1}, agent.session)
    requested_at = time.monotonic()
    await call.start()
    await wait_for_value(build_connection_query(agent), ("POLLING", False))
    task = await run_in_thread(offer_task, agent)
    await run_in_thread(notify_task, agent.instance.delegate_id, task.pk)
    status, content, _ = await call.read_response()
    assert (status, [task_row["id"] for task_row in content["tasks"]]) == (200, [str(task.pk)])
    assert 0 < content["held_seconds"] < time.monotonic() - requested_at + 0.001


async def test_a_poll_ends_without_a_task_when_its_time_is_over(agent: Agent):
    status, content, _ = await post(
        "/agent/v1/tasks/acquire", {"wait_seconds": 0.1, "free": 1}, agent.session
    )
    assert (status, content["tasks"]) == (200, [])


async def test_who_hung_up_is_given_nothing(agent: Agent):
    call = Call("/agent/v1/tasks/acquire", {"wait_seconds": 20, "free": 1}, agent.session)
    await call.start()
    await wait_for_value(build_connection_query(agent), ("POLLING", False))
    await call.disconnect()
    assert (await call.read_response())[1]["tasks"] == []
    task = await run_in_thread(offer_task, agent)
    await run_in_thread(notify_task, agent.instance.delegate_id, task.pk)
    await run_in_thread(task.refresh_from_db)
    assert task.status == "QUEUED"


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/agent/v1/nothing", {}, 404, "not_found"),
        ("/agent/v1/tasks/*/logs", {}, 404, "not_found"),
        ("/agent/v1/tasks/x/../../register", {}, 404, "not_found"),
        ("/agent/v1/register", {"method": "GET"}, 405, "method_not_allowed"),
        ("/agent/v1/tasks/renew", {"bearer": ""}, 401, "session_invalid"),
    ],
)
async def test_what_is_not_served_is_a_problem_document(
    path: str, headers: dict[str, str], status: int, code: str
):
    found_status, problem, response_headers = await post(path, {}, **headers)
    assert (found_status, problem["code"], problem["status"]) == (status, code, status)
    assert response_headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == response_headers["x-request-id"]
    assert response_headers["cache-control"] == "no-store"


BOMB = gzip.compress(b" " * 300 * 1024 * 1024, 9)


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"x" * (AGENT_BYTES + 1), "identity", 413),
        (BOMB, "gzip", 413),
        (gzip.compress(b"{}")[:-9], "gzip", 400),
        (gzip.compress(b"{}") + b"more", "gzip", 400),
        (b"{}", "gzip", 400),
        (b"{}", "br", 400),
        (b"\xff", "identity", 400),
        (b"[1]", "identity", 400),
        (b'{"a": NaN}', "identity", 400),
        (b'{"a":' * 90_000, "identity", 400),
    ],
    ids=["large", "bomb", "cut", "two", "unpacked", "unknown", "latin", "list", "NaN", "deep"],
)
async def test_hostile_bodies_are_refused(agent: Agent, body: bytes, encoding: str, status: int):
    path, headers = "/agent/v1/tasks/renew", {"content-encoding": encoding}
    found_status, problem, _ = await post(path, body, agent.session, **headers)
    assert (found_status, problem["status"]) == (status, status)


async def test_packed_lines_are_taken(agent: Agent):
    body = gzip.compress(json.dumps({"sequence": 1, "lines": ["a", "b"]}).encode())
    assert (await post("/agent/v1/logs", body, agent.session, **{"content-encoding": "gzip"}))[1] == {
        "next": 3
    }


async def test_an_instance_that_sends_its_own_log_without_end_has_to_wait(agent: Agent):
    await run_in_thread(cache.clear)
    body = json.dumps({"sequence": 1, "lines": ["a"]}).encode()
    for _ in range(AGENT_LOG_REQUESTS):
        assert (await post("/agent/v1/logs", body, agent.session))[0] == 200
    status, problem, headers = await post("/agent/v1/logs", body, agent.session)
    assert (status, problem["code"], headers["retry-after"]) == (429, "log_throttled", "1")
    # What is expected next may be asked for all the same.
    question = json.dumps({"sequence": 1, "lines": []}).encode()
    assert (await post("/agent/v1/logs", question, agent.session))[1] == {"next": 2}


async def test_a_refusal_says_when_to_come_back(token: DelegateToken):
    await run_in_thread(cache.clear)
    for _ in range(6):
        status, _, headers = await post(
            "/agent/v1/register", await run_in_thread(build_registration, account_id="x"), token.value
        )
    assert (status, headers["retry-after"]) == (429, "60")


async def test_nothing_is_taken_in_the_clear_where_slipway_is_served_by_https(agent: Agent, settings: Any):
    settings.SECURE_SSL_REDIRECT = True
    body = {"wait_seconds": 0, "free": 1}
    status, problem, _ = await post("/agent/v1/tasks/acquire", body, agent.session)
    assert (status, problem["code"]) == (403, "not_encrypted")
    proxy_headers = {"x-forwarded-proto": "https"}
    assert (await post("/agent/v1/tasks/acquire", body, agent.session, **proxy_headers))[0] == 200
    assert (await Socket(agent.session).open())["code"] == 4403
