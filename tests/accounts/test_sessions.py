"""Sessions: which there are, how long they last, and how they are ended."""

from collections.abc import Callable

import pytest
import time_machine
from allauth.usersessions.models import UserSession
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.authentication.sessions import SESSION_RETENTION, describe_device
from rbac.access_changes import hash_session_key
from rbac.models import AuditEntry, User
from tests.fixtures.sockets import session_of
from tests.rbac.people import user
from tests.secret_watch.marker import planted
from web.http.sessions import SessionStore
from web.retention import prune_rows

pytestmark = pytest.mark.django_db
PASSWORD, FRESH = planted("correct horse battery"), planted("a quite different staple")
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HOUR = 3600


@pytest.fixture(autouse=True)
def _clear_failures() -> None:
    cache.clear()


def sign_in(
    name: str = "anna", agent: str = FIREFOX, address: str = "192.0.2.7", password: str = PASSWORD
) -> Client:
    client = Client(HTTP_USER_AGENT=agent, REMOTE_ADDR=address)
    assert client.post("/sign-in/", {"username": name, "password": password}).status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def test_a_person_sees_where_they_are_signed_in_and_nobody_else_s_sessions():
    user("anna")
    user("bert")
    sign_in("bert", address="198.51.100.9")
    sign_in(agent="curl/8", address="203.0.113.5")
    page = sign_in().get("/account/sessions/").content.decode()
    assert "Firefox on Linux" in page
    assert "curl/8" in page
    assert "203.0.113.5" in page
    assert "198.51.100.9" not in page


def test_nobody_signs_in_with_what_the_database_holds():
    user("anna")
    key = sign_in().session.session_key
    stored_values = [
        *Session.objects.values_list("pk", flat=True),
        *UserSession.objects.values_list("session_key", flat=True),
    ]
    assert key not in stored_values
    for stored_value in stored_values:
        attacker = Client()
        attacker.cookies[settings.SESSION_COOKIE_NAME] = stored_value
        assert not is_signed_in(attacker)


@pytest.mark.django_db(transaction=True)
async def test_a_session_is_found_and_ended_from_a_loop_too():
    person = await sync_to_async(user)("anna")
    key = (await session_of(person)).session_key
    assert await SessionStore(key).aget(SESSION_KEY) == str(person.pk)
    assert await SessionStore().aexists(key)
    await SessionStore(key).adelete()
    assert not await SessionStore().aexists(key)


def test_ending_a_session_signs_that_browser_out():
    user("anna")
    client, other_client = sign_in(), sign_in()
    row = UserSession.objects.get(session_key=hash_session_key(other_client.session.session_key))
    assert client.post(f"/account/sessions/{row.pk}/end/")["Location"] == "/account/sessions/"
    assert (is_signed_in(client), is_signed_in(other_client)) == (True, False)
    assert AuditEntry.objects.filter(action="user.session_end", actor_name="anna").exists()


def test_nobody_ends_the_session_of_somebody_else():
    user("anna")
    user("bert")
    anna, bert = sign_in(), sign_in("bert")
    row = UserSession.objects.get(session_key=hash_session_key(anna.session.session_key))
    assert bert.post(f"/account/sessions/{row.pk}/end/").status_code == 404
    assert is_signed_in(anna)


def test_signing_out_everywhere_else_leaves_this_session():
    user("anna")
    first_client, second_client, third_client = sign_in(), sign_in(), sign_in()
    first_client.post("/account/sessions/end/")
    assert [is_signed_in(client) for client in (first_client, second_client, third_client)] == [
        True,
        False,
        False,
    ]


def change_own_password(client: Client) -> None:
    form = {"old_password": PASSWORD, "new_password1": FRESH, "new_password2": FRESH}
    assert client.post("/account/password/", form).status_code == 302


def change_password_in_admin(client: Client) -> None:
    form = {"usable_password": "true", "password1": FRESH, "password2": FRESH}
    address = f"/admin/rbac/user/{User.objects.get(username='anna').pk}/password/"
    assert client.post(address, form).status_code == 302


@pytest.mark.parametrize("change", [change_own_password, change_password_in_admin])
def test_after_a_new_password_the_list_has_the_session_that_set_it_alone(
    change: Callable[[Client], None],
):
    User.objects.filter(pk=user("anna", "account_admin").pk).update(is_staff=True)
    client, other_client = sign_in(), sign_in(agent="curl/8")
    change(client)
    page = client.get("/account/sessions/").content.decode()
    assert "curl/8" not in page
    assert "Firefox on Linux" in page
    assert Session.objects.count() == 1
    assert (is_signed_in(client), is_signed_in(other_client)) == (True, False)

    later_client = sign_in(password=FRESH)
    later_client.post("/account/sessions/end/")
    assert (is_signed_in(client), is_signed_in(later_client)) == (False, True)


def test_a_password_that_an_administrator_sets_ends_all_sessions_of_the_person_alone():
    user("anna")
    User.objects.filter(pk=user("bert", "account_admin").pk).update(is_staff=True)
    anna, bert = sign_in(), sign_in("bert")
    change_password_in_admin(bert)
    assert (is_signed_in(anna), is_signed_in(bert)) == (False, True)
    assert not UserSession.objects.filter(user__username="anna").exists()
    assert "Firefox on Linux" in bert.get("/account/sessions/").content.decode()


def test_a_session_ends_after_twelve_idle_hours():
    user("anna")
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        client = sign_in()
        clock.shift(11 * HOUR)
        assert is_signed_in(client)
        clock.shift(11 * HOUR)
        assert is_signed_in(client)
        clock.shift(13 * HOUR)
        assert not is_signed_in(client)


def test_a_session_ends_after_seven_days_however_busy():
    user("anna")
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        client = sign_in()
        for _ in range(16):
            clock.shift(10 * HOUR)
            assert is_signed_in(client)
        clock.shift(9 * HOUR)
        assert not is_signed_in(client)


def test_a_request_writes_nothing_down_until_five_minutes_have_passed():
    user("anna")
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        client = sign_in()
        client.get("/account/sessions/")
        with CaptureQueriesContext(connection) as queries:
            client.get("/account/sessions/")
        assert not [query for query in queries if not query["sql"].startswith("SELECT")]
        clock.shift(301)
        client.get("/account/sessions/")
        assert UserSession.objects.get().last_seen_at.timestamp() == 1_800_000_301


@pytest.mark.parametrize("address", ["", "unknown", "192.0.2.7:4711", "fe80::1%eth0", "<b>"])
def test_a_strange_address_keeps_nobody_out(address: str):
    user("anna")
    assert is_signed_in(sign_in(address=address))


def test_what_is_left_of_ended_sessions_is_pruned():
    user("anna")
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        sign_in()
        clock.shift(13 * HOUR)
        active_client = sign_in()
        assert prune_rows(SESSION_RETENTION, timezone.now())
        assert [row.session_key for row in UserSession.objects.all()] == [
            hash_session_key(active_client.session.session_key)
        ]


@pytest.mark.parametrize(
    ("agent", "device"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit Chrome/141.0 Safari/537.36 Edg/141.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19 like Mac OS X) Version/19 Safari/604.1", "Safari on iPhone"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("", "Unknown"),
    ],
)
def test_a_browser_is_named_in_words(agent: str, device: str):
    assert describe_device(agent) == device
