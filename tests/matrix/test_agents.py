"""Every call of agents × what somebody shows: a call without a row fails, a task stays with its agent."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from delegates.models import DelegateTask, DelegateToken
from delegates.operations.tokens import revoke_token
from delegates.protocol.asgi import ASYNC_ROUTES, ROUTES
from delegates.protocol.requests import run_in_thread
from rbac.models import Scope, User
from rbac.operations.api_keys import create_api_key
from tests.delegates.protocol.asgi_client import Socket, post
from tests.delegates.protocol.fake_agents import Agent, build_registration, offer_task, register_agent
from tests.fixtures.delegates import make_token
from tests.fixtures.people import make_project

RESULT: dict[str, Any] = {"status": "SUCCEEDED", "result": {}, "error": None}
# What each call says that is well-formed; "*" stands for a task.
BODIES: dict[str, Mapping[str, Any]] = {
    "register": {},
    "heartbeat": {"running": []},
    "configuration": {"exit_code": 0, "output": "", "duration_ms": 1, "started_at": 1, "digest": "x"},
    "configuration/secrets": {"configuration_id": 1},
    "logs": {"sequence": 0, "lines": []},
    "deregister": {},
    "tasks/acquire": {"free": 0, "wait": 0},
    "tasks/renew": {"tasks": []},
    "tasks/*/logs": {"fence": 1, "sequence": 0, "lines": []},
    "tasks/*/complete": {"fence": 1, **RESULT},
}
OF_SESSIONS = [call for call in BODIES if call != "register"]
OF_TASKS = [call for call in BODIES if "*" in call]
NO_SESSION = (401, "session_invalid")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nobody_was_refused() -> None:
    cache.clear()


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


@pytest.fixture
def agent(token: DelegateToken) -> Agent:
    return register_agent(token)


def test_every_call_has_a_row() -> None:
    assert set(BODIES) == {*ROUTES, *ASYNC_ROUTES}


async def post_call(call: str, bearer: str, task: str = "") -> tuple[int, str]:
    """The status and the code that a call is answered with."""
    body = await run_in_thread(build_registration) if call == "register" else BODIES[call]
    status, content, _ = await post(f"/agent/v1/{call.replace('*', task or str(uuid.uuid4()))}", body, bearer)
    return status, content.get("code", "")


async def is_closed(bearer: str) -> bool:
    """Whether the door of agents' sockets shuts; it opens first, for only then a code can be given."""
    socket = Socket(bearer)
    answers = [await socket.open()]
    if answers[0]["type"] == "websocket.accept":
        answers.append(await socket.receive())
    return bool(answers[-1].get("type") == "websocket.close")


async def test_only_a_session_is_heard(agent: Agent, token: DelegateToken, admin: User) -> None:
    _, key = await run_in_thread(make_key, admin)
    forged = agent.session[:-1] + ("A" if agent.session[-1] != "A" else "B")
    for bearer in ("", "x", key, token.value, forged):
        answers = {call: await post_call(call, bearer) for call in OF_SESSIONS}
        assert answers == dict.fromkeys(OF_SESSIONS, NO_SESSION), bearer[:8]
        assert await is_closed(bearer)


async def test_only_a_token_registers(agent: Agent, token: DelegateToken, admin: User) -> None:
    _, key = await run_in_thread(make_key, admin)
    for bearer in ("", "x", key, agent.session):
        assert (await post_call("register", bearer))[0] == 401, bearer[:8]
    assert (await post_call("register", token.value))[0] == 200


def make_key(person: User) -> tuple[Any, str]:
    return create_api_key(actor=person, user=person, name="program")


async def test_nobody_else_is_heard_of_a_task(agent: Agent, token: DelegateToken) -> None:
    """Neither another delegate of the scope nor one next door, whatever fence it names."""
    task = await run_in_thread(create_acquired_task, agent)
    for path in ("default/demo", "default/sibling", "other/elsewhere"):
        other = await run_in_thread(register_neighbor, path)
        for call in OF_TASKS:
            foreign_answer = await post_call(call, other.session, str(task.pk))
            assert foreign_answer == await post_call(call, other.session), f"{path}: {call}"
    assert (await run_in_thread(DelegateTask.objects.get, pk=task.pk)).status == DelegateTask.Status.STARTED


def create_acquired_task(agent: Agent) -> DelegateTask:
    task = offer_task(agent)
    agent.acquire()
    return task


def register_neighbor(path: str) -> Agent:
    token = make_token(make_project(*path.split("/")), f"of {path}")
    return register_agent(token, f"other-{path.replace('/', '-')}", instance_key=f"host-2/{path}")


@pytest.mark.parametrize("ended_by", ["archiving", "revoking", "rejecting"])
async def test_who_is_shut_out_is_heard_no_more(
    ended_by: str, agent: Agent, token: DelegateToken, admin: User, project: Scope
) -> None:
    task = await run_in_thread(create_acquired_task, agent)
    await run_in_thread(revoke_access, ended_by, agent, token, admin)
    answers = {call: (await post_call(call, agent.session, str(task.pk)))[0] for call in OF_SESSIONS}
    assert set(answers.values()) <= {401, 403}, answers
    assert (await post_call("register", token.value))[0] in (401, 403)
    assert await is_closed(agent.session)


def revoke_access(action: str, agent: Agent, token: DelegateToken, admin: User) -> None:
    if action == "archiving":
        Scope.objects.filter(pk=token.scope_id).update(archived_at=timezone.now())
    elif action == "revoking":
        revoke_token(actor=admin, token=token)
    else:
        delegate = agent.instance.delegate
        delegate.admission = "REJECTED"
        delegate.save()
