"""Who loses access loses it on open connections too, whichever process the change was made in."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_here
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from delegates.models import DelegateToken
from deployments.models import Execution
from rbac.models import Role, RoleAssignment, RolePermission, Scope, User, UserGroup
from rbac.operations import archive_scope, remove_assignment, restore_scope, update_role
from tests.api.sample_project import make_world
from tests.delegates.protocol.test_server import (
    connect_socket,
    post,
    receive_close_code,
    register,
    start_server,
)
from tests.fixtures.delegates import make_token
from tests.fixtures.people import make_person
from tests.fixtures.sockets import new_session
from tests.fixtures.time_limits import promised

pytestmark = pytest.mark.django_db(transaction=True)
PROMISED_SECONDS = 2.0
# People; each has two pages open.
MANY = 150
Servers = tuple[str, str]


@pytest.fixture(scope="module")
def servers(child_environment: Mapping[str, str]) -> Iterator[Servers]:
    """Two web servers; what is changed in a test is changed in a third process."""
    with start_server(child_environment) as (first_server, _), start_server(child_environment) as (other, _):
        yield first_server, other


@dataclass(frozen=True)
class Watcher:
    """Somebody with a page of an execution on one server and the list of delegates on the other."""

    person: User
    browser: Client
    sockets: tuple[Any, Any]

    def receive_close_codes(self) -> list[int]:
        """Return the close codes of the sockets, within the time limit."""
        with promised(PROMISED_SECONDS):
            return [_receive_close_code(socket) for socket in self.sockets]

    def is_watching(self) -> bool:
        """Return whether both sockets answer a ping."""
        return all(socket.ping().wait(30) for socket in self.sockets)


def _receive_close_code(socket: Any) -> int:
    with suppress(ConnectionClosed):
        while True:
            socket.recv(timeout=30)
    return int(socket.close_code)


Watch = Callable[[User], Watcher]


@pytest.fixture
def execution(project: Scope, admin: User) -> Execution:
    """One that is over: its project can be archived."""
    execution = make_world(project, admin, admin).execution
    Execution.objects.filter(pk=execution.pk).update(status="SUCCESS", due_at=None)
    return execution


@pytest.fixture
def watch(servers: Servers, live_broker: str, execution: Execution, project: Scope) -> Iterator[Watch]:
    with ExitStack() as stack:

        def open_watcher(person: User) -> Watcher:
            browser = Client()
            browser.force_login(person)
            cookie = f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"
            paths = (f"/ws/executions/{execution.pk}/", f"/ws/live/?topic=delegates:{project.pk}")
            sockets = [
                stack.enter_context(
                    connect(
                        url.replace("http", "ws", 1) + path,
                        origin=url,  # type: ignore[arg-type]
                        additional_headers={"Cookie": cookie},
                        compression=None,
                    )
                )
                for url, path in zip(servers, paths, strict=True)
            ]
            for socket in sockets:
                assert json.loads(socket.recv(timeout=30))["type"] in ("state", "watching")
            return Watcher(person, browser, (sockets[0], sockets[1]))

        yield open_watcher


def test_what_is_taken_from_one_person_closes_their_sockets_and_nobody_elses(
    watch: Watch, admin: User, project: Scope, account: Scope
):
    view_role = Role.objects.create(scope=project, identifier="looking", name="Looking")
    RolePermission.objects.create(role=view_role, permission="core_pipeline_view")
    group = UserGroup.objects.create(scope=account, identifier="crew", name="Crew")
    viewer = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(group=group, role=viewer, scope=project)
    role_user, group_user = make_person("of_role"), make_person("of_group")
    RoleAssignment.objects.create(user=role_user, role=view_role, scope=project)
    group.users.add(group_user)
    assigned_users = [
        make_person(name, "viewer", project) for name in ("unassigned", "inactive", "left", "renewed")
    ]
    watchers = {person.username: watch(person) for person in (*assigned_users, role_user, group_user)}
    admin_watcher, office = watch(admin), Client()
    office.force_login(admin)

    def deactivate_user() -> None:
        form = {"username": "inactive", "email": "", "first_name": "", "last_name": ""}
        address = reverse("admin:rbac_user_change", args=[watchers["inactive"].person.pk])
        assert office.post(address, form).status_code == 302

    def empty_group() -> None:
        form = {"name": "Crew", "identifier": "crew", "scope": account.pk, "users": []}
        address = reverse("admin:rbac_usergroup_change", args=[group.pk])
        assert office.post(address, form).status_code == 302

    def change_password() -> None:
        person = watchers["renewed"].person
        person.set_password("another long password")
        person.save()

    revocations: list[tuple[str, Callable[[], object], list[int]]] = [
        (
            "unassigned",
            lambda: remove_assignment(
                actor=admin, assignment=RoleAssignment.objects.get(user=assigned_users[0])
            ),
            [4403, 4403],
        ),
        ("inactive", deactivate_user, [4401, 4401]),
        ("left", lambda: watchers["left"].browser.post(reverse("sign-out")), [4401, 4401]),
        ("renewed", change_password, [4401, 4401]),
        ("of_group", empty_group, [4403, 4403]),
    ]
    for name, end, codes in revocations:
        end()
        assert watchers.pop(name).receive_close_codes() == codes, name
        assert all(watcher.is_watching() for watcher in watchers.values()), name
    # Who has any role may see delegates: only the execution is gone.
    update_role(actor=admin, role=view_role, name="Looking", permissions=["core_service_view"])
    with promised(PROMISED_SECONDS):
        assert _receive_close_code(watchers["of_role"].sockets[0]) == 4403
    assert watchers["of_role"].sockets[1].ping().wait(30)
    assert admin_watcher.is_watching()


def test_an_archived_project_lets_go_of_people_and_agents(
    watch: Watch, servers: Servers, admin: User, project: Scope
):
    token: DelegateToken = make_token(project)
    session = register(servers[1], token, "eu")
    watcher = watch(make_person("only_here", "viewer", project))
    with connect_socket(servers[1], session) as agent:
        archive_scope(actor=admin, scope=project)
        with promised(PROMISED_SECONDS):
            assert watcher.receive_close_codes() == [4403, 4403]
            assert receive_close_code(agent) == 4401
    response = post(servers[0], "heartbeat", {"running": []}, session)
    assert (response.status_code, response.json()["code"]) == (403, "scope_archived")
    restore_scope(actor=admin, scope=Scope.objects.get(pk=project.pk))
    assert register(servers[0], token, "eu")


def test_hundreds_of_pages_in_one_process_are_let_go_in_time(
    servers: Servers, live_broker: str, execution: Execution, admin: User, project: Scope, account: Scope
):
    user_group = UserGroup.objects.create(scope=account, identifier="crew", name="Crew")
    user_group.users.set([User.objects.create(username=f"person{number}") for number in range(MANY)])
    viewer = Role.objects.get(identifier="viewer", scope=None)
    assignment = RoleAssignment.objects.create(group=user_group, role=viewer, scope=project)
    paths = (f"/ws/executions/{execution.pk}/", f"/ws/live/?topic=delegates:{project.pk}")
    cookies, admin_cookies = _create_cookies(user_group.users.all()), _create_cookies([admin])
    with asyncio.Runner() as runner:
        pages = runner.run(_open_sockets(servers[0], paths, cookies))
        witnesses = runner.run(_open_sockets(servers[0], paths, admin_cookies))
        remove_assignment(actor=admin, assignment=assignment)
        with promised(PROMISED_SECONDS):
            codes = runner.run(_wait_for_close_codes(pages))
        runner.run(_close_open_sockets(witnesses))
    assert codes == [4403] * 2 * MANY


def _create_cookies(people: Iterable[User]) -> list[str]:
    return [f"{settings.SESSION_COOKIE_NAME}={new_session(user).session_key}" for user in people]


async def _open_sockets(url: str, paths: Sequence[str], cookies: Sequence[str]) -> list[ClientConnection]:
    """Open a socket to each path for each cookie, and wait for its first message."""
    sockets: list[ClientConnection] = []
    for cookie in cookies:
        for path in paths:
            socket = await connect_here(
                url.replace("http", "ws", 1) + path,
                origin=url,  # type: ignore[arg-type]
                additional_headers={"Cookie": cookie},
                compression=None,
            )
            sockets.append(socket)
    for socket in sockets:
        assert json.loads(await socket.recv())["type"] in ("state", "watching")
    return sockets


async def _wait_for_close_codes(pages: Sequence[ClientConnection]) -> list[int | None]:
    """Wait until all sockets are closed, and return their close codes."""
    await asyncio.gather(*(page.wait_closed() for page in pages))
    return [page.close_code for page in pages]


async def _close_open_sockets(pages: Sequence[ClientConnection]) -> None:
    """Check that each socket answers a ping, and close it."""
    async with asyncio.timeout(60):
        for page in pages:
            await (await page.ping())
            await page.close()
