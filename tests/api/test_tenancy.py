"""Every address × who asks: a new address without a row fails, and nothing of another project shows."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.test import Client
from django.urls import get_resolver, reverse

from config.urls import websocket_urlpatterns
from rbac.models import User
from tests.api.asks import READ, WHO, Ask, nothing
from tests.api.rows import ROWS, names_of
from tests.api.world import CANARY, World
from tests.fixtures.sockets import session_of

pytestmark = pytest.mark.django_db


def test_every_address_has_a_row():
    assert set(names_of(get_resolver().url_patterns)) == set(ROWS)


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        pytest.param(name, ask, id=f"{name}-{ask.method}{ask.query}")
        for name, row in ROWS.items()
        for ask in row.asks
    ],
)
def test_everybody_gets_what_is_theirs_and_no_more(
    name: str, ask: Ask, world: World, stranger: User, viewer: User, deployer: User, admin: User
):
    people = (AnonymousUser(), stranger, viewer, deployer, admin)
    found: dict[str, int] = {}
    for who, person in zip(WHO, people, strict=True):
        with transaction.atomic():
            response = send(person, name, ask, world)
            transaction.set_rollback(True)
        found[who] = response.status_code
        if who in ("anonymous", "stranger"):
            assert CANARY not in response.getvalue().decode("utf-8", "replace"), f"{who} sees what is foreign"
    assert found == dict(zip(WHO, ask.statuses, strict=True))


def send(person: User | AnonymousUser, name: str, ask: Ask, world: World) -> Any:
    client = Client(raise_request_exception=True)
    if isinstance(person, User):
        client.force_login(person)
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
    if ask.method == "get":
        return client.get(address)
    if ask.is_form:
        return client.post(address, ask.body(world))
    return getattr(client, ask.method)(address, ask.body(world), content_type="application/json")


READABLE = [
    name
    for name, row in ROWS.items()
    if row.kwargs is not nothing and any(a.statuses == READ for a in row.asks)
]
MISSING = {"int": 999_999, "UUID": "00000000-0000-4000-8000-000000000000", "str": "nothing"}


@pytest.mark.parametrize("name", READABLE)
def test_nothing_tells_a_foreign_id_from_one_that_never_was(name: str, world: World, stranger: User):
    client = Client()
    client.force_login(stranger)
    kwargs = ROWS[name].kwargs(world)
    foreign = client.get(reverse(name, kwargs=kwargs)).json()
    missing = {key: MISSING[type(value).__name__] for key, value in kwargs.items()}
    nowhere = client.get(reverse(name, kwargs=missing)).json()
    assert {**foreign, "request_id": ""} == {**nowhere, "request_id": ""}


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("api-") and name != "api-docs"])
def test_anonymous_programs_are_told_how_to_sign_in(name: str, world: World):
    response = send(AnonymousUser(), name, ROWS[name].asks[0], world)
    assert response["WWW-Authenticate"] == 'Bearer realm="slipway"'
    assert response["Content-Type"] == "application/problem+json"


async def close_code_of(person: User | AnonymousUser, execution: object) -> int | None:
    """Open the socket of an execution and return the code it is closed with, None where it stays open."""
    address = f"/ws/executions/{execution}/"
    scope = {"type": "websocket", "path": address, "query_string": b"", "headers": []}
    scope["session"] = await session_of(person)
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=5))["type"] == "websocket.accept"
    message = await socket.receive_output(timeout=5)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=5)
    return message.get("code") if message["type"] == "websocket.close" else None


@pytest.mark.django_db(transaction=True)
def test_sockets_open_for_those_who_may_see_the_execution(
    world: World, stranger: User, viewer: User, deployer: User, admin: User
):
    people = (AnonymousUser(), stranger, viewer, deployer, admin)
    codes = [async_to_sync(close_code_of)(person, world.execution.pk) for person in people]
    assert codes == [4401, 4403, None, None, None]
    assert [str(pattern.pattern) for pattern in websocket_urlpatterns] == [
        "ws/executions/<uuid:pk>/",
        # Has its own test, in tests/delegates/test_delegate_socket.py.
        "ws/delegates/",
    ]
