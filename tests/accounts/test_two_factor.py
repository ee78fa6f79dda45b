"""A second factor: turned on with the first code of an app, asked for at each sign-in."""

import re
import time
from io import StringIO

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from rbac.models import AuditEntry, User
from tests.rbac.people import user
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
PASSWORD = planted("correct horse battery")


@pytest.fixture(autouse=True)
def _no_failures_yet() -> None:
    cache.clear()


def code_of(secret: str, ahead: int = 0) -> str:
    """What an app shows that knows the secret, `ahead` half minutes from now."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + ahead))


def turned_on(person: User) -> tuple[str, list[str]]:
    """Set up an app for `person`; returns its secret and the recovery codes."""
    client = Client()
    client.force_login(person)
    return turned_on_for(client)


def turned_on_for(client: Client) -> tuple[str, list[str]]:
    secret = re.search(r'id="key">([A-Z2-7]+)<', client.get("/account/two-factor/").content.decode())[1]
    shown = client.post("/account/two-factor/", {"code": code_of(secret), "proof": PASSWORD})
    return secret, re.findall(r"<li><code>(\d{10})</code>", shown.content.decode())


def begin(name: str = "anna") -> Client:
    """A browser that gave the right password."""
    client = Client()
    response = client.post(
        "/sign-in/", {"username": name, "password": PASSWORD, "next": "/pipelines/?scope=account"}
    )
    assert response["Location"] == "/sign-in/code/"
    return client


def test_a_code_is_asked_for_before_there_is_a_session():
    secret, codes = turned_on(user("anna"))
    client = begin()
    assert len(codes) == 10
    assert client.get("/pipelines/")["Location"].startswith("/sign-in/")

    wrong = client.post("/sign-in/code/", {"code": "000000"})
    assert (wrong.status_code, b"This code is wrong" in wrong.content) == (400, True)
    right = client.post("/sign-in/code/", {"code": code_of(secret, 1)})
    assert (right.status_code, right["Location"]) == (302, "/pipelines/?scope=account")
    assert client.get("/account/").status_code == 200


def test_a_code_opens_once_and_an_older_one_never_again():
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        secret, _ = turned_on(user("anna"))
        first = code_of(secret)
        assert begin().post("/sign-in/code/", {"code": first}).status_code == 400
        clock.shift(30)
        assert begin().post("/sign-in/code/", {"code": code_of(secret)}).status_code == 302
        assert begin().post("/sign-in/code/", {"code": code_of(secret)}).status_code == 400
        assert begin().post("/sign-in/code/", {"code": first}).status_code == 400


def test_a_recovery_code_opens_once_and_is_written_down():
    _, codes = turned_on(user("anna"))
    assert begin().post("/sign-in/code/", {"code": codes[3]}).status_code == 302
    assert begin().post("/sign-in/code/", {"code": codes[3]}).status_code == 400
    assert AuditEntry.objects.filter(action="user.recovery_code_use", actor_name="anna").count() == 1


def test_the_sixth_wrong_code_ends_the_sign_in():
    secret, _ = turned_on(user("anna"))
    client = begin()
    for _ in range(5):
        client.post("/sign-in/code/", {"code": "000000"})
    assert client.post("/sign-in/code/", {"code": code_of(secret, 1)}).status_code == 429
    assert client.get("/sign-in/code/")["Location"] == "/sign-in/"


def test_a_wrong_code_or_password_turns_nothing_on():
    client = Client()
    client.force_login(user("anna"))
    client.get("/account/two-factor/")
    page = client.get("/account/two-factor/").content.decode()
    secret = re.search(r'id="key">([A-Z2-7]+)<', page)[1]

    assert client.post("/account/two-factor/", {"code": "123", "proof": PASSWORD}).status_code == 400
    wrong = {"code": code_of(secret), "proof": "guessed"}
    assert client.post("/account/two-factor/", wrong).status_code == 400
    assert not Authenticator.objects.exists()


def test_new_recovery_codes_replace_the_old_ones_and_turning_off_takes_all():
    person = user("anna")
    _, old = turned_on(person)
    client = Client()
    client.force_login(person)
    assert client.post("/account/two-factor/codes/", {"proof": "guessed"}).status_code == 400
    shown = client.post("/account/two-factor/codes/", {"proof": PASSWORD}).content.decode()
    assert len(re.findall(r"<li><code>\d{10}</code>", shown)) == 10
    assert begin().post("/sign-in/code/", {"code": old[0]}).status_code == 400

    assert client.post("/account/two-factor/off/", {"proof": PASSWORD})["Location"] == "/account/"
    assert not Authenticator.objects.exists()
    assert {"user.two_factor_on", "user.two_factor_off"} <= set(
        AuditEntry.objects.values_list("action", flat=True)
    )


def test_the_admin_site_can_be_for_those_with_a_second_factor(settings: Settings, admin: User):
    client = Client()
    client.force_login(admin)
    assert client.get("/admin/").status_code == 200
    settings.ADMIN_NEEDS_SECOND_FACTOR = True
    assert client.get("/admin/rbac/user/")["Location"] == "/account/two-factor/"
    turned_on_for(client)
    assert client.get("/admin/rbac/user/").status_code == 200


def test_who_lost_the_phone_comes_in_again_with_the_password_alone():
    turned_on(user("anna"))
    call_command("turn_off_second_factor", "anna", stdout=StringIO())
    response = Client().post("/sign-in/", {"username": "anna", "password": PASSWORD})
    assert response["Location"] == "/"
    assert AuditEntry.objects.filter(action="user.two_factor_off", actor_name="slipway").exists()
    with pytest.raises(CommandError, match="no two-factor authentication"):
        call_command("turn_off_second_factor", "anna")


def test_neither_the_table_nor_the_session_holds_a_readable_secret():
    person = user("anna")
    client = Client()
    client.force_login(person)
    page = client.get("/account/two-factor/").content.decode()
    waiting = re.search(r'id="key">([A-Z2-7]+)<', page)[1]
    assert waiting not in str(dict(client.session))
    secret, codes = turned_on(person)
    kept = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert not any(text in kept for text in (secret, *codes))
