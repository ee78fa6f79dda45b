"""What tests of the doors rely on: one of everything, and an administrator at the door."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from delegates.models.delegates import create_first_rows
from rbac.models import Scope, User
from rbac.permissions import ensure_builtin_roles
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person, make_project
from tests.secret_watch import sinks

Send = Callable[..., Any]


@pytest.fixture(autouse=True)
def _builtin_roles(request: pytest.FixtureRequest) -> None:
    """A test that flushed the database may have run before in this process."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("account")


@pytest.fixture(autouse=True)
def _random_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that nobody planted are sent to every door."""
    monkeypatch.setattr(sinks, "insists", False)


@dataclass(frozen=True)
class Shared:
    """The rows that all tests of a module share unchanged."""

    admin: User
    world: World


def _may_share(items: list[pytest.Item]) -> bool:
    """Whether tests leave nothing behind: those that commit do, and then empty the database for all."""
    markers = [marker for item in items if (marker := item.get_closest_marker("django_db"))]
    names = {name for item in items for name in getattr(item, "fixturenames", ())}
    commits = any(marker.kwargs.get("transaction") for marker in markers)
    return "world" in names and not commits and not names & {"transactional_db", "live_server"}


@pytest.fixture(scope="module", autouse=True)
def _made(request: pytest.FixtureRequest) -> Iterator[Shared | None]:
    """Made around the transactions of all tests of the module: that takes longer than most of the tests."""
    if not _may_share([item for item in request.session.items if item.path == request.path]):
        yield None
        return
    request.getfixturevalue("django_db_setup")
    with request.getfixturevalue("django_db_blocker").unblock(), transaction.atomic():
        ensure_builtin_roles()
        create_first_rows()
        admin = make_person("admin", "account_admin", Scope.objects.account())
        yield Shared(admin, make_world(make_project("default", "demo"), admin, admin))
        transaction.set_rollback(True)


@pytest.fixture
def shared(_made: Shared | None) -> Shared | None:
    """The module's world as if it had just been read."""
    return copy.deepcopy(_made)


@pytest.fixture
def account(shared: Shared | None, db: None) -> Scope:
    if shared is None:
        ensure_builtin_roles()
        create_first_rows()
    return Scope.objects.account()


@pytest.fixture
def admin(shared: Shared | None, account: Scope) -> User:
    return shared.admin if shared else make_person("admin", "account_admin", account)


@pytest.fixture
def world(shared: Shared | None, project: Scope, admin: User) -> World:
    """One object of every kind in the project under test."""
    return shared.world if shared else make_world(project, admin, admin)


@pytest.fixture
def client(admin: User) -> Client:
    """An administrator's browser, which raises what the server would answer with 500."""
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def send(client: Client) -> Send:
    """Send one request and roll back its changes."""

    def send_and_roll_back(method: str, address: str, *args: Any, **kwargs: Any) -> Any:
        with transaction.atomic():
            response = getattr(client, method)(address, *args, **kwargs)
            transaction.set_rollback(True)
        return response

    return send_and_roll_back
