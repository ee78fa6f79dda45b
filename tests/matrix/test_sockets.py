"""Every socket of browsers × everybody: it stays open for who may listen, and is closed for all others."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone

from config.urls import websocket_urlpatterns
from delegates.models import LookupRequest
from deployments.models import PreviewRequest
from rbac.models import Scope, User
from tests.api.extra_objects import acceptance_run, adoption
from tests.api.required_access import ACCOUNT, ADMIN, EVERY_STANDING, HERE, Standing
from tests.api.sample_project import World, make_world
from tests.fixtures.delegates import make_task
from tests.fixtures.sockets import session_of
from tests.lanes import is_thorough
from tests.matrix.principals import make_people
from web.live.sources import list_topic_names

UNKNOWN, REFUSED = 4401, 4403


def may_watch_an_execution(standing: Standing) -> bool:
    return standing.has("core_pipeline_view", HERE)


def may_count_approvals(standing: Standing) -> bool:
    """Return True: every user receives the number of own approvals (deployments/approvals/test_badge.py)."""
    return True


def may_watch_a_service(standing: Standing) -> bool:
    return standing.has("core_service_view", HERE)


def may_watch_nothing(standing: Standing) -> bool:
    """Return whether a socket without topics is allowed; the rows below cover topics."""
    return False


def is_project_member(standing: Standing) -> bool:
    """Return whether the person is a member; web/live/test_live_socket.py tests each change."""
    return standing.is_member(HERE)


def sees_delegates_here(standing: Standing) -> bool:
    return standing.has("core_delegate_view", HERE)


def is_requester(standing: Standing) -> bool:
    """Return whether the person sent the lookup request; nobody else reads its answer."""
    return standing == ADMIN


def create_lookup_request(world: World) -> LookupRequest:
    return LookupRequest.objects.create(
        connector=world.connector,
        kind=LookupRequest.Kind.TEST,
        region="us-east-1",
        requested_by=world.member,
        requested_at=timezone.now(),
    )


def create_preview(world: World) -> PreviewRequest:
    return PreviewRequest.objects.create(
        pipeline=world.pipeline, version=1, requested_by=world.member, requested_at=timezone.now()
    )


SOCKETS = {
    "ws/executions/<uuid:pk>/": may_watch_an_execution,
    "ws/approvals/": may_count_approvals,
    "ws/live/": may_watch_nothing,
}
# What a page may name in the socket of news, with the key of the world's thing.
TOPICS: dict[str, tuple[Callable[[World], Any], Callable[[Standing], bool]]] = {
    "approvals": (lambda world: world.scope.pk, is_project_member),
    "executions": (lambda world: world.scope.pk, is_project_member),
    "pipeline": (lambda world: world.pipeline.pk, lambda standing: standing.has("core_pipeline_view", HERE)),
    "delegates": (lambda world: world.scope.pk, is_project_member),
    "delegates-at": (lambda world: world.scope.pk, is_project_member),
    "delegate-rows": (lambda world: world.scope.pk, is_project_member),
    "delegate-rows-at": (lambda world: world.scope.pk, is_project_member),
    "delegate": (lambda world: world.delegate.pk, sees_delegates_here),
    "delegate-tasks": (lambda world: world.scope.pk, is_project_member),
    "delegate-tasks-at": (lambda world: world.scope.pk, is_project_member),
    "delegate-task": (lambda world: make_task(world.scope).pk, sees_delegates_here),
    "delegate-log": (lambda world: world.delegate.pk, sees_delegates_here),
    "inquiry": (lambda world: create_lookup_request(world).pk, is_requester),
    "badges": (lambda world: world.member.pk, is_requester),
    "service-dashboard": (lambda world: world.service.pk, may_watch_a_service),
    "timeline": (
        lambda world: world.execution.pk,
        lambda standing: standing.has("core_pipeline_view", HERE),
    ),
    "approval": (lambda world: world.approval.pk, lambda standing: standing.has("core_pipeline_view", HERE)),
    "preview": (lambda world: create_preview(world).pk, is_requester),
    "instances": (lambda world: world.scope.pk, is_project_member),
    "instances-of": (
        lambda world: world.service.pk,
        lambda standing: standing.has("core_service_view", HERE),
    ),
    "git-sync": (lambda world: world.git_sync.pk, lambda standing: standing.has("core_gitsync_view", HERE)),
    "acceptance-run": (
        lambda world: acceptance_run(world)["pk"],
        lambda standing: standing.has("core_account_edit", ACCOUNT),
    ),
    "event-queue-setups": (
        lambda world: world.connector.pk,
        lambda standing: standing.has("core_connector_view", HERE),
    ),
    "adoption": (
        lambda world: adoption(world)["pk"],
        lambda standing: standing.has("core_environment_view", HERE),
    ),
    "infrastructure": (
        lambda world: world.infrastructure.pk,
        lambda standing: standing.has("core_environment_view", HERE),
    ),
}


def test_every_socket_has_a_row() -> None:
    assert {str(pattern.pattern) for pattern in websocket_urlpatterns} == set(SOCKETS)


@pytest.mark.django_db(transaction=True)
def test_a_socket_opens_for_who_may_listen(project: Scope) -> None:
    people = make_people()
    world = make_world(project, people[ADMIN], people[ADMIN])
    for pattern, may_listen in SOCKETS.items():
        address = "/" + pattern.replace("<uuid:pk>", str(world.execution.pk)).replace(
            "<int:pk>", str(world.service.pk)
        )
        expected = {str(standing): None if may_listen(standing) else REFUSED for standing in EVERY_STANDING}
        codes = async_to_sync(close_codes)(people, address)
        assert {str(standing): codes[standing] for standing in EVERY_STANDING} == expected
        assert async_to_sync(close_code_of)(AnonymousUser(), address) == UNKNOWN


def select_listeners(may_listen: Callable[[Standing], bool], turn: int) -> list[Standing]:
    """Return everybody; in the gate two who may and two who may not, others in each turn."""
    if is_thorough():
        return list(EVERY_STANDING)
    allowed = [standing for standing in EVERY_STANDING if may_listen(standing)]
    refused = [standing for standing in EVERY_STANDING if not may_listen(standing)]
    return [kind[(turn * 2 + number) % len(kind)] for kind in (allowed, refused) for number in range(2)]


def test_every_topic_has_a_row() -> None:
    assert list_topic_names() == set(TOPICS)


@pytest.mark.django_db(transaction=True)
def test_a_topic_is_for_who_may_see_what_it_is_about(project: Scope) -> None:
    people = make_people()
    world = make_world(project, people[ADMIN], people[ADMIN])
    for turn, (topic, (key_in, may_listen)) in enumerate(TOPICS.items()):
        address = f"/ws/live/?topic={topic}:{key_in(world)}"
        listeners = {standing: people[standing] for standing in select_listeners(may_listen, turn)}
        expected = {standing: None if may_listen(standing) else REFUSED for standing in listeners}
        assert async_to_sync(close_codes)(listeners, address) == expected, topic
        assert async_to_sync(close_code_of)(AnonymousUser(), address) == UNKNOWN


async def close_codes(people: dict[Standing, User], address: str) -> dict[Standing, int | None]:
    return {standing: await close_code_of(person, address) for standing, person in people.items()}


async def close_code_of(person: User | AnonymousUser, address: str) -> int | None:
    """Open a socket and return the code it is closed with, None where it stays open."""
    scope: dict[str, Any] = {
        "type": "websocket",
        "path": address.partition("?")[0],
        "query_string": address.partition("?")[2].encode(),
        "headers": [],
        "session": await session_of(person),
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=60))["type"] == "websocket.accept"
    message = await socket.receive_output(timeout=60)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=60)
    return message.get("code") if message["type"] == "websocket.close" else None
