"""Passwords and profile: changed by their person, and set anew by e-mail."""

import re

import pytest
from django.contrib.sessions.models import Session
from django.core import mail
from django.core.cache import cache
from django.test import Client

from accounts.authentication.passwords import send_reset_mail
from rbac.models import AuditEntry, User
from tests.rbac.people import user
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
PASSWORD, FRESH = planted("correct horse battery"), planted("a quite different staple")


@pytest.fixture(autouse=True)
def _clear_failures() -> None:
    cache.clear()


@pytest.fixture
def anna() -> User:
    person = user("anna")
    person.email = "anna@example.com"
    person.save()
    return person


def sign_in(password: str = PASSWORD) -> Client:
    client = Client()
    assert client.post("/sign-in/", {"username": "anna", "password": password}).status_code == 302
    return client


def send_reset_link() -> str:
    return re.search(r"https?://[^/]+(/new-password/\S+)", mail.outbox[-1].body)[1]


def follow_link(path: str) -> Client:
    client = Client()
    assert client.get(path)["Location"] == "/new-password/"
    return client


def build_password_fields(password: str) -> dict[str, str]:
    return {"new_password1": password, "new_password2": password}


def test_a_changed_password_counts_at_once_and_ends_all_other_sessions(anna: User):
    client, other_client = sign_in(), sign_in()
    response = client.post("/account/password/", {"old_password": "guessed", **build_password_fields(FRESH)})
    assert (response.status_code, b"The password is not correct" in response.content) == (400, True)
    assert (
        client.post(
            "/account/password/", {"old_password": PASSWORD, **build_password_fields(FRESH)}
        ).status_code
        == 302
    )
    assert client.get("/account/").status_code == 200
    assert other_client.get("/account/").status_code == 302
    sign_in(FRESH)
    assert AuditEntry.objects.filter(action="user.password_change", actor_name="anna").count() == 1


def test_the_old_password_cannot_be_guessed_from_an_open_session(anna: User):
    client = sign_in()
    for _ in range(5):
        client.post("/account/password/", {"old_password": "guessed", **build_password_fields(FRESH)})
    assert (
        client.post(
            "/account/password/", {"old_password": PASSWORD, **build_password_fields(FRESH)}
        ).status_code
        == 429
    )


def test_a_weak_password_is_refused(anna: User):
    response = sign_in().post(
        "/account/password/", {"old_password": PASSWORD, **build_password_fields("short")}
    )
    assert (response.status_code, b"too short" in response.content) == (400, True)


def test_a_link_sets_a_new_password_once_and_ends_every_session(anna: User):
    session = sign_in()
    send_reset_mail("ANNA@example.com")
    path = send_reset_link()
    client = follow_link(path)
    assert path.rpartition("/")[0].rpartition("/")[2] not in str(dict(client.session))
    assert client.post("/new-password/", build_password_fields(FRESH)).status_code == 200
    assert session.get("/account/").status_code == 302
    sign_in(FRESH)
    assert Client().get(path).status_code == 403
    assert AuditEntry.objects.filter(action="user.password_reset", actor_name="anna").count() == 1


def test_the_answer_is_the_same_whether_somebody_has_the_address_or_not(
    anna: User, monkeypatch: pytest.MonkeyPatch
):
    requested_emails: list[str] = []
    monkeypatch.setattr(
        "accounts.tasks.send_password_reset.delay", lambda *, email: requested_emails.append(email)
    )
    pages = [
        Client().post("/forgotten-password/", {"email": address}).content.replace(address.encode(), b"")
        for address in ("anna@example.com", "nobody@example.com")
    ]
    assert pages[0] == pages[1]
    assert requested_emails == ["anna@example.com", "nobody@example.com"]
    send_reset_mail("nobody@example.com")
    assert mail.outbox == []


def test_who_has_no_password_or_may_not_sign_in_gets_no_letter(anna: User):
    anna.is_active = False
    anna.save()
    send_reset_mail("anna@example.com")
    anna.is_active = True
    anna.set_unusable_password()
    anna.save()
    send_reset_mail("anna@example.com")
    assert mail.outbox == []


def test_nobody_is_flooded_with_letters(anna: User):
    for _ in range(5):
        send_reset_mail("anna@example.com")
    assert len(mail.outbox) == 3


def test_one_address_asks_for_ten_letters_an_hour(anna: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accounts.tasks.send_password_reset.delay", lambda *, email: None)
    client = Client()
    statuses = [
        client.post("/forgotten-password/", {"email": f"a{number}@example.com"}).status_code
        for number in range(11)
    ]
    assert statuses == [200] * 10 + [429]


@pytest.mark.parametrize(
    ("number", "status"), [("MQ", 403), ("x", 403), ("OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", 403), ("%00", 400)]
)
def test_a_made_up_link_opens_nothing(number: str, status: int):
    client = Client()
    answer = client.get(f"/new-password/{number}/abc-def/")
    assert answer.status_code == status
    assert (b"already used or has expired" in answer.content) == (status == 403)
    assert client.get("/new-password/").status_code == 403
    assert not Session.objects.exists(), "a stranger stores nothing"


def test_a_person_changes_their_name_and_with_the_password_their_address(anna: User):
    client = sign_in()
    profile = {"first_name": "Anna", "last_name": "Ericsson", "email": "anna@example.com"}
    assert client.post("/account/", profile).status_code == 302
    assert client.post("/account/", profile | {"email": "a@example.org"}).status_code == 400
    assert (
        client.post("/account/", profile | {"email": "a@example.org", "proof": PASSWORD}).status_code == 302
    )
    anna.refresh_from_db()
    assert (anna.first_name, anna.email) == ("Anna", "a@example.org")
    entry = AuditEntry.objects.filter(action="user.update").latest("pk")
    assert (entry.before, entry.after) == ({"email": "anna@example.com"}, {"email": "a@example.org"})
