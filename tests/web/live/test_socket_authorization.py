"""Which open sockets a change of access concerns, what is asked for all, and that none goes on before."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deployments.consumers import ExecutionConsumer
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.access_changes import ACCESS_GROUP, hash_session_key
from rbac.models import Scope, User
from tests.fixtures.people import make_person
from tests.fixtures.sockets import new_session
from web.http.sessions import SessionStore, get_session_users
from web.live.consumers import TopicConsumer
from web.live.socket_authorization import (
    CLOSE_INTERNAL_ERROR,
    CLOSE_NOT_SIGNED_IN,
    SocketSession,
    authorize_socket,
    compute_close_codes,
)

pytestmark = pytest.mark.django_db(transaction=True)


class Screen:
    """A socket for every signed-in user that counts its authorization checks."""

    def __init__(self) -> None:
        self.check_count = 0
        self.is_asking = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    @classmethod
    def get_close_codes(cls, pairs: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        for screen, _ in pairs:
            screen.is_asking.set()
            assert screen.may_answer.wait(60)
            screen.check_count += 1
        return [None for _ in pairs]


class Broken(Screen):
    """A socket whose authorization check fails."""

    @classmethod
    def get_close_codes(cls, pairs: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        raise LookupError("no such thing")


async def publish_access(*, people: tuple[int, ...] = (), sessions: tuple[str, ...] = ()) -> None:
    message = {
        "type": "access.changed",
        "people": list(people),
        "sessions": [hash_session_key(key) for key in sessions],
    }
    await get_channel_layer().group_send(ACCESS_GROUP, message)


@sync_to_async
def signed_in(name: str) -> tuple[User, str]:
    """A new person and the key of their session."""
    person = make_person(name)
    return person, str(new_session(person).session_key)


async def wait_until_authorized(*sockets: SocketSession) -> None:
    async with asyncio.timeout(60):
        await asyncio.gather(*(socket.authorized.wait() for socket in sockets))


async def wait_until_unauthorized(*sockets: SocketSession) -> None:
    async with asyncio.timeout(60):
        while any(socket.authorized.is_set() for socket in sockets):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("subject", "times_asked"), [("person", [2, 1]), ("session", [1, 2]), ("nobody", [2, 2])]
)
async def test_a_change_has_those_asked_anew_whom_it_is_about(subject: str, times_asked: list[int]):
    (first, key), (_, other_key) = await signed_in("first"), await signed_in("second")
    screens = (Screen(), Screen())
    async with (
        authorize_socket(screens[0], key) as first_socket,
        authorize_socket(screens[1], other_key) as two,
    ):
        await wait_until_authorized(first_socket, two)
        concerned = [
            socket for socket, times in zip((first_socket, two), times_asked, strict=True) if times == 2
        ]
        people, sessions = (first.pk,) * (subject == "person"), (other_key,) * (subject == "session")
        await publish_access(people=people, sessions=sessions)
        await wait_until_unauthorized(*concerned)
        await wait_until_authorized(first_socket, two)
        assert [screen.check_count for screen in screens] == times_asked


async def test_a_change_while_it_is_asked_is_asked_about_before_anything_goes_on():
    _, key = await signed_in("first")
    slow, quick = Screen(), Screen()
    slow.may_answer.clear()
    async with authorize_socket(quick, key) as witness:
        await wait_until_authorized(witness)
        async with authorize_socket(slow, key) as socket:
            assert await asyncio.to_thread(slow.is_asking.wait, 60)
            await publish_access()
            await wait_until_unauthorized(witness)
            slow.may_answer.set()
            await wait_until_authorized(socket, witness)
            assert slow.check_count == quick.check_count == 2


async def test_who_is_not_signed_in_is_shown_nothing():
    async with authorize_socket(Screen(), "") as socket:
        assert await asyncio.wait_for(socket.close_code, 60) == CLOSE_NOT_SIGNED_IN
        assert not socket.authorized.is_set()


async def test_what_cannot_be_asked_lets_all_go_and_does_not_keep_the_next_out(
    caplog: pytest.LogCaptureFixture,
):
    _, key = await signed_in("first")
    async with authorize_socket(Screen(), key) as good:
        await wait_until_authorized(good)
        async with authorize_socket(Broken(), key) as bad:
            assert await asyncio.wait_for(asyncio.gather(good.close_code, bad.close_code), 60) == [
                CLOSE_INTERNAL_ERROR,
                CLOSE_INTERNAL_ERROR,
            ]
        async with authorize_socket(Screen(), key) as later:
            await wait_until_authorized(later)
    assert [
        record.levelname for record in caplog.records if record.name == "web.live.socket_authorization"
    ] == ["ERROR"]


async def test_many_sockets_are_asked_about_in_as_many_queries_as_two(project: Scope):
    pairs = await sync_to_async(watchers)(project, 25)
    sockets = [SocketSession(screen, key) for screen, key in pairs]
    of_two, few = await measure_close_codes(sockets[:4])
    all_of_them, many = await measure_close_codes(sockets)
    assert set(all_of_them.values()) == set(of_two.values()) == {None}
    assert few == many


def watchers(project: Scope, count: int) -> list[tuple[Any, str]]:
    """For each of `count` people a page of delegates, and one of an execution that nobody else looks at."""
    pairs: list[tuple[Any, str]] = []
    for number in range(count):
        person = make_person(f"person{number}", "viewer", project)
        pipeline = Pipeline.objects.create(scope=project, identifier=f"p{number}", name="P", yaml="")
        run = Execution.objects.create(
            pipeline=pipeline, scope=project, number=1, yaml="", status="SUCCESS", due_at=timezone.now()
        )
        page = ExecutionConsumer()
        page.execution_id = run.pk
        key = str(new_session(person).session_key)
        topics = TopicConsumer()
        topics.topics = frozenset({f"delegates:{project.pk}"})
        pairs += [(page, key), (topics, key)]
    return pairs


@sync_to_async
def measure_close_codes(sockets: list[SocketSession]) -> tuple[dict[SocketSession, int | None], int]:
    """Return the close codes of these sockets and the number of queries."""
    with CaptureQueriesContext(connection) as queries:
        return compute_close_codes(sockets), len(queries)


def session(person: User, **changes: Any) -> str:
    session = new_session(person)
    session.update(changes)
    session.save()
    return str(session.session_key)


def test_a_session_is_somebodys_while_a_page_would_take_it(settings: Any, django_assert_num_queries: Any):
    anna, inactive, renewed = (make_person(name) for name in ("anna", "inactive", "renewed"))
    keys = {name: session(anna) for name in ("here", "there", "ended", "over")}
    keys["inactive"], keys["renewed"] = session(inactive), session(renewed)
    keys["backend"] = session(anna, **{BACKEND_SESSION_KEY: "somebody.elses.Backend"})
    keys["unsealed"] = session(anna, **{HASH_SESSION_KEY: ""})
    keys["empty"] = session(User())
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "a new secret of this site"
    keys["new secret"] = session(anna)
    SessionStore(keys["ended"]).delete()
    SessionStore().model.objects.filter(session_key=hash_session_key(keys["over"])).update(
        expire_date=timezone.now() - timedelta(seconds=1)
    )
    User.objects.filter(pk=inactive.pk).update(is_active=False)
    renewed.set_password("another long password")
    renewed.save()
    with django_assert_num_queries(2):
        users = get_session_users([*keys.values(), "unheard-of", "", str(uuid4())])
    assert users == dict.fromkeys((keys["here"], keys["there"], keys["new secret"]), anna)
