"""Signing in and out through the page."""

import pytest
from django.core.cache import cache
from django.test import Client

from rbac.models import AuditEntry, User
from tests.rbac.people import user
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
PASSWORD = planted("correct horse battery")


@pytest.fixture(autouse=True)
def _clear_failures():
    cache.clear()


def sign_in(client: Client, name: str = "anna", password: str = PASSWORD, **fields: str):
    return client.post("/sign-in/", {"username": name, "password": password, **fields})


def test_the_right_password_signs_in_and_leads_on(client: Client):
    user("anna")
    response = sign_in(client, next="/pipelines/")

    assert (response.status_code, response["Location"]) == (302, "/pipelines/")
    assert "_auth_user_id" in client.session
    assert AuditEntry.objects.filter(action="user.sign_in", actor_name="anna").exists()
    assert client.get("/pipelines/").status_code == 200


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "\\\\evil"]
)
def test_it_never_leads_to_another_site(client: Client, target: str):
    user("anna")
    assert sign_in(client, next=target)["Location"] == "/"


def test_a_wrong_password_says_so_without_saying_which_part(client: Client):
    user("anna")
    wrong_password = sign_in(client, password="wrong").content
    response_body = sign_in(client, name="bert", password="wrong").content
    assert b"_auth_user_id" not in client.session
    assert b"correct username and password" in wrong_password
    assert b"correct username and password" in response_body
    assert AuditEntry.objects.filter(action="user.sign_in_failed").count() == 1


def test_names_that_differ_by_case_only_lock_nobody_out():
    """Older installations may have them."""
    user("anna")
    assert "_auth_user_id" in sign_in_as("ANNA").session, "case does not matter for a name of its own"
    anna = User.objects.get(username="anna")
    other = User.objects.create_user("Anna", password=PASSWORD)
    assert sign_in_as("anna").session["_auth_user_id"] == str(anna.pk)
    assert sign_in_as("Anna").session["_auth_user_id"] == str(other.pk)
    assert "_auth_user_id" not in sign_in_as("ANNA").session


def sign_in_as(name: str) -> Client:
    client = Client()
    sign_in(client, name)
    return client


def test_an_inactive_user_cannot_sign_in(client: Client):
    user("anna")
    User.objects.update(is_active=False)
    assert sign_in(client).status_code == 200
    assert "_auth_user_id" not in client.session


def test_a_service_account_never_signs_in_and_has_no_session(client: Client):
    robot = user("robot")
    client.force_login(robot)
    User.objects.update(kind=User.Kind.SERVICE_ACCOUNT)

    assert client.get("/deployments/")["Location"].startswith("/sign-in/")
    assert sign_in(Client(), name="robot").status_code == 200


def test_the_sixth_failure_in_a_minute_locks_the_account_even_for_the_right_password(client: Client):
    user("anna")
    for _ in range(5):
        assert sign_in(client, password="wrong").status_code == 200
    response = sign_in(client)
    assert response.status_code == 429
    assert b"Too many failed sign-ins" in response.content


def test_a_failed_sign_in_is_recorded_however_the_name_is_typed(client: Client):
    anna = user("anna")
    sign_in(client, name="ANNA", password="wrong")
    assert AuditEntry.objects.get(action="user.sign_in_failed").thing_id == str(anna.pk)


def test_sign_ins_above_the_limit_leave_nothing_in_the_audit_trail(client: Client):
    user("anna")
    statuses = [sign_in(client, password="wrong").status_code for _ in range(8)]
    assert statuses == [200] * 5 + [429] * 3
    assert AuditEntry.objects.filter(action="user.sign_in_failed").count() == 5


def test_other_accounts_still_sign_in_while_one_is_locked(client: Client):
    user("anna")
    user("bert")
    for _ in range(6):
        sign_in(client, password="wrong")
    assert sign_in(client, name="bert").status_code == 302


def test_an_address_that_guesses_many_names_is_locked_out(client: Client):
    user("anna")
    for number in range(20):
        sign_in(client, name=f"guess{number}", password="wrong")
    assert sign_in(client).status_code == 429


def test_successful_sign_ins_are_never_counted(client: Client):
    user("anna")
    for _ in range(30):
        assert sign_in(client).status_code == 302
        client.post("/sign-out/")


def test_strange_input_is_a_failure_and_no_error(client: Client):
    for name in ("a" * 10_000, "🚢", "' or 1=1 --", ""):
        assert sign_in(client, name=name, password="\x1b").status_code == 200
    assert sign_in(client, name="\x00").status_code == 400


def test_signing_out_needs_a_post_and_ends_the_session(client: Client):
    user("anna")
    sign_in(client)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert "_auth_user_id" not in client.session


def test_forms_of_other_sites_are_refused():
    user("anna")
    response = sign_in(Client(enforce_csrf_checks=True))
    assert response.status_code == 403
    page = response.content.decode()
    assert "This form has expired" in page
    assert "Your roles do not allow" not in page


def test_a_signed_in_person_is_led_on_at_once(client: Client):
    client.force_login(user("anna"))
    assert client.get("/sign-in/?next=/files/")["Location"] == "/files/"
