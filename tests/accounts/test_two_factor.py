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
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.authentication.two_factor import remove_authenticator_app
from rbac.models import AuditEntry, User
from tests.fixtures.interleaving import act_after
from tests.rbac.people import user
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
PASSWORD = planted("correct horse battery")


@pytest.fixture(autouse=True)
def _clear_failures() -> None:
    cache.clear()


def generate_code(secret: str, steps_ahead: int = 0) -> str:
    """Return the code of an authenticator app, `steps_ahead` half minutes from now."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps_ahead))


def enable_two_factor(person: User) -> tuple[str, list[str]]:
    """Set up an app for `person`; returns its secret and the recovery codes."""
    client = Client()
    client.force_login(person)
    return enable_two_factor_in(client)


def enable_two_factor_in(client: Client) -> tuple[str, list[str]]:
    secret = re.search(r'id="key">([A-Z2-7]+)<', client.get("/account/two-factor/").content.decode())[1]
    page = client.post("/account/two-factor/", {"code": generate_code(secret), "proof": PASSWORD})
    return secret, re.findall(r"<li><code>(\d{10})</code>", page.content.decode())


def begin_sign_in(name: str = "anna") -> Client:
    """Open a browser and enter the right password."""
    client = Client()
    response = client.post(
        "/sign-in/", {"username": name, "password": PASSWORD, "next": "/pipelines/?scope=account"}
    )
    assert response["Location"] == "/sign-in/code/"
    return client


def test_a_code_is_asked_for_before_there_is_a_session():
    secret, codes = enable_two_factor(user("anna"))
    client = begin_sign_in()
    assert len(codes) == 10
    assert client.get("/pipelines/")["Location"].startswith("/sign-in/")

    wrong_code = client.post("/sign-in/code/", {"code": "000000"})
    assert (wrong_code.status_code, b"This code is wrong" in wrong_code.content) == (400, True)
    right_code = client.post("/sign-in/code/", {"code": generate_code(secret, 1)})
    assert (right_code.status_code, right_code["Location"]) == (302, "/pipelines/?scope=account")
    assert client.get("/account/").status_code == 200


def test_a_code_opens_once_and_an_older_one_never_again():
    with time_machine.travel(1_800_000_000, tick=False) as clock:
        secret, _ = enable_two_factor(user("anna"))
        first = generate_code(secret)
        assert begin_sign_in().post("/sign-in/code/", {"code": first}).status_code == 400
        clock.shift(30)
        assert begin_sign_in().post("/sign-in/code/", {"code": generate_code(secret)}).status_code == 302
        assert begin_sign_in().post("/sign-in/code/", {"code": generate_code(secret)}).status_code == 400
        assert begin_sign_in().post("/sign-in/code/", {"code": first}).status_code == 400


def test_a_recovery_code_opens_once_and_is_written_down():
    _, codes = enable_two_factor(user("anna"))
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[3]}).status_code == 302
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[3]}).status_code == 400
    assert AuditEntry.objects.filter(action="user.recovery_code_use", actor_name="anna").count() == 1


def test_the_sixth_wrong_code_ends_the_sign_in():
    secret, _ = enable_two_factor(user("anna"))
    client = begin_sign_in()
    for _ in range(5):
        client.post("/sign-in/code/", {"code": "000000"})
    assert client.post("/sign-in/code/", {"code": generate_code(secret, 1)}).status_code == 429
    assert client.get("/sign-in/code/")["Location"] == "/sign-in/"


@pytest.mark.parametrize("name", ["code of {}", "proof of {}", "code:{}", "{}"])
def test_no_user_name_that_strangers_type_locks_the_codes_and_proofs_of_a_user(name: str):
    anna = user("anna")
    secret, _ = enable_two_factor(anna)
    client = begin_sign_in()
    for _ in range(6):
        guess = {"username": name.format(anna.pk), "password": "guessed"}
        answer = Client().post("/sign-in/", guess, REMOTE_ADDR="192.0.2.1")
    assert answer.status_code == 429
    assert client.post("/sign-in/code/", {"code": generate_code(secret, 1)}).status_code == 302
    assert client.post("/account/two-factor/off/", {"proof": PASSWORD}).status_code == 302


@pytest.mark.parametrize("ending", ["new password", "disabled"])
def test_a_sign_in_that_waits_for_its_code_ends_with_its_password_and_its_user(ending: str):
    anna = user("anna")
    secret, _ = enable_two_factor(anna)
    client = begin_sign_in()
    assert client.get("/sign-in/code/").status_code == 200
    if ending == "disabled":
        User.objects.update(is_active=False)
    else:
        anna.set_password(planted("a quite different staple"))
        anna.save()
    assert client.post("/sign-in/code/options/").status_code == 400
    answer = client.post("/sign-in/code/", {"code": generate_code(secret, 1)})
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/")
    assert "_auth_user_id" not in client.session
    User.objects.update(is_active=True)
    assert client.get("/sign-in/code/")["Location"] == "/sign-in/"


def test_a_wrong_code_or_password_turns_nothing_on():
    client = Client()
    client.force_login(user("anna"))
    client.get("/account/two-factor/")
    page = client.get("/account/two-factor/").content.decode()
    secret = re.search(r'id="key">([A-Z2-7]+)<', page)[1]

    assert client.post("/account/two-factor/", {"code": "123", "proof": PASSWORD}).status_code == 400
    form = {"code": generate_code(secret), "proof": "guessed"}
    assert client.post("/account/two-factor/", form).status_code == 400
    assert not Authenticator.objects.exists()


def test_new_recovery_codes_replace_the_old_ones_and_turning_off_takes_all():
    person = user("anna")
    _, old_codes = enable_two_factor(person)
    client = Client()
    client.force_login(person)
    assert client.post("/account/recovery-codes/", {"proof": "guessed"}).status_code == 400
    page = client.post("/account/recovery-codes/", {"proof": PASSWORD}).content.decode()
    assert len(re.findall(r"<li><code>\d{10}</code>", page)) == 10
    assert begin_sign_in().post("/sign-in/code/", {"code": old_codes[0]}).status_code == 400

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
    enable_two_factor_in(client)
    assert client.get("/admin/rbac/user/").status_code == 200


def test_who_lost_the_phone_comes_in_again_with_the_password_alone():
    enable_two_factor(user("anna"))
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
    pending_secret = re.search(r'id="key">([A-Z2-7]+)<', page)[1]
    assert pending_secret not in str(dict(client.session))
    secret, codes = enable_two_factor(person)
    stored_data = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert not any(text in stored_data for text in (secret, *codes))


def test_a_passkey_that_is_added_while_the_app_is_removed_stays():
    anna = user("anna")
    enable_two_factor(anna)

    def add() -> None:
        Authenticator.objects.create(user=anna, type=Authenticator.Type.WEBAUTHN, data={"name": "Key"})

    with act_after('AS "a" FROM "mfa_authenticator"', add):
        remove_authenticator_app(actor=anna)
    assert Authenticator.objects.filter(user=anna, type=Authenticator.Type.WEBAUTHN).exists()


def test_the_user_is_locked_while_the_app_is_removed():
    anna = user("anna")
    enable_two_factor(anna)
    with CaptureQueriesContext(connection) as queries:
        remove_authenticator_app(actor=anna)
    statements = [query["sql"] for query in queries if not query["sql"].startswith("SAVEPOINT")]
    assert 'FROM "rbac_user"' in statements[0]
    assert "FOR UPDATE" in statements[0] or not connection.features.has_select_for_update
