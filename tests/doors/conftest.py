"""What tests of the doors rely on: one of everything, and an administrator at the door."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from rbac.models import Scope, User
from tests.api.world import World, make_world
from tests.watching import places

Send = Callable[..., Any]


@pytest.fixture(autouse=True)
def _builtin_roles(request: pytest.FixtureRequest) -> None:
    """A test that flushed the database may have run before in this process."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("account")


@pytest.fixture(autouse=True)
def _random_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that nobody planted are sent to every door."""
    monkeypatch.setattr(places, "insists", False)


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    """One of everything in the project where things happen."""
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User) -> Client:
    """An administrator's browser, which raises what the server would answer with 500."""
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def send(client: Client) -> Send:
    """Send one request whose traces are taken back at once."""

    def sent(method: str, address: str, *args: Any, **kwargs: Any) -> Any:
        with transaction.atomic():
            response = getattr(client, method)(address, *args, **kwargs)
            transaction.set_rollback(True)
        return response

    return sent
