"""Passkeys: added after a proof of identity, used instead of the password or after it, removed."""

import json
import re
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from guards.limits import PASSKEY_REQUESTS_PER_ADDRESS, PASSKEYS_PER_USER
from rbac.models import AuditEntry, User
from tests.accounts.test_two_factor import PASSWORD, enable_two_factor_in, generate_code
from tests.fixtures.passkeys import SoftwarePasskey
from tests.rbac.people import user

pytestmark = pytest.mark.django_db
NEW = {"name": "Laptop", "is_passwordless": "on", "proof": PASSWORD}


@pytest.fixture(autouse=True)
def _clear_failures() -> None:
    cache.clear()


def open_browser(person: User | None = None, **options: Any) -> Client:
    # As the script of the pages asks for options.
    client = Client(**{"SERVER_NAME": "localhost", "HTTP_ACCEPT": "application/json", **options})
    if person is not None:
        client.force_login(person)
    return client


def add_passkey(
    client: Client, passkey: SoftwarePasskey, *, name: str = "Laptop", passwordless: bool = True
) -> Any:
    """Add a passkey as the script does; returns the response to the finished form."""
    form = NEW | {"name": name}
    if not passwordless:
        del form["is_passwordless"]
    options = client.post("/account/passkeys/new/options/", form)
    assert options.status_code == 200, options.content
    registration = json.dumps(passkey.register(options.json()))
    return client.post("/account/passkeys/new/", {**form, "registration": registration})


def sign_in(client: Client, passkey: SoftwarePasskey, **form: str) -> Any:
    options = client.post("/sign-in/passkey/options/").json()
    return client.post("/sign-in/passkey/", {**form, "assertion": json.dumps(passkey.sign(options))})


def begin_sign_in() -> Client:
    client = open_browser()
    response = client.post("/sign-in/", {"username": "anna", "password": PASSWORD})
    assert response["Location"] == "/sign-in/code/"
    return client


def prove(client: Client, passkey: SoftwarePasskey) -> dict[str, str]:
    options = client.post("/account/passkeys/proof/").json()
    return {"assertion": json.dumps(passkey.sign(options))}


def list_actions(person: User) -> list[str]:
    entries = AuditEntry.objects.filter(thing_type="rbac.user", thing_id=str(person.pk))
    return list(entries.order_by("pk").values_list("action", flat=True))


def test_a_passkey_is_added_listed_and_signs_in_without_a_password():
    anna, passkey = user("anna"), SoftwarePasskey()
    browser = open_browser(anna)
    page = add_passkey(browser, passkey, name="My <laptop>").content.decode()
    assert len(re.findall(r"<li><code>\d{10}</code>", page)) == 10
    listed = browser.get("/account/passkeys/").content.decode()
    assert "My &lt;laptop&gt;" in listed
    assert "Replaces the password" in listed
    assert ">Never<" in listed
    assert "Manage passkeys" in browser.get("/account/").content.decode()

    other = open_browser()
    response = sign_in(other, passkey, next="/account/passkeys/")
    assert (response.status_code, response["Location"]) == (302, "/account/passkeys/")
    assert ">Never<" not in other.get("/account/passkeys/").content.decode()
    assert list_actions(anna) == ["user.passkey_add", "user.two_factor_on", "user.sign_in"]
    entry = AuditEntry.objects.get(action="user.sign_in")
    assert (entry.actor, entry.after) == (anna, {"method": "passkey"})


def test_a_passkey_is_a_second_factor_after_the_password():
    passkey = SoftwarePasskey(is_verified=False)
    add_passkey(open_browser(user("anna")), passkey, passwordless=False)
    browser = begin_sign_in()
    page = browser.get("/sign-in/code/").content.decode()
    assert "Use a passkey" in page
    assert "authenticator app" not in page
    assert browser.get("/account/").status_code == 302
    options = browser.post("/sign-in/code/options/").json()
    assert len(options["publicKey"]["allowCredentials"]) == 1
    response = browser.post("/sign-in/code/", {"assertion": json.dumps(passkey.sign(options))})
    assert (response.status_code, response["Location"]) == (302, "/")
    assert browser.get("/account/").status_code == 200


def test_a_second_factor_alone_signs_nobody_in():
    anna, passkey = user("anna"), SoftwarePasskey()
    add_passkey(open_browser(anna), passkey, passwordless=False)
    response = sign_in(open_browser(), passkey)
    assert (response.status_code, b"second factor only" in response.content) == (400, True)
    assert list_actions(anna)[-1] == "user.sign_in_failed"


def test_a_device_that_checked_nobody_replaces_no_password():
    passkey = SoftwarePasskey()
    add_passkey(open_browser(user("anna")), passkey)
    passkey.is_verified = False
    assert sign_in(open_browser(), passkey).status_code == 400
    browser = begin_sign_in()
    assertion = json.dumps(passkey.sign(browser.post("/sign-in/code/options/").json()))
    assert browser.post("/sign-in/code/", {"assertion": assertion}).status_code == 302


def test_recovery_codes_replace_a_lost_passkey():
    browser, passkey = open_browser(user("anna")), SoftwarePasskey()
    codes = re.findall(r"<li><code>(\d{10})</code>", add_passkey(browser, passkey).content.decode())
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[0]}).status_code == 302
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[0]}).status_code == 400
    page = browser.get("/account/recovery-codes/").content.decode()
    assert "9 recovery codes left" in page
    renewed = browser.post("/account/recovery-codes/", prove(browser, passkey)).content.decode()
    assert len(re.findall(r"<li><code>\d{10}</code>", renewed)) == 10
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[1]}).status_code == 400


def test_an_app_and_a_passkey_stand_beside_each_other():
    anna, passkey = user("anna"), SoftwarePasskey()
    browser = open_browser(anna)
    secret, codes = enable_two_factor_in(browser)
    response = add_passkey(browser, passkey)
    assert response["Location"] == "/account/passkeys/"
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[0]}).status_code == 302

    assert browser.post("/account/two-factor/off/", {"proof": PASSWORD})["Location"] == "/account/"
    assert "Sign-in still asks for a passkey" in browser.get("/account/").content.decode()
    assert begin_sign_in().post("/sign-in/code/", {"code": generate_code(secret, 1)}).status_code == 400
    assert begin_sign_in().post("/sign-in/code/", {"code": codes[1]}).status_code == 302
    assert "user.two_factor_off" not in list_actions(anna)


def test_a_passkey_is_added_after_the_right_password_only():
    browser = open_browser(user("anna"))
    assert "Your password" in browser.get("/account/passkeys/new/").content.decode()
    form = {"name": "Laptop", "proof": "guessed"}
    refused = browser.post("/account/passkeys/new/options/", form)
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")
    assert refused.json()["detail"] == "Your password: The password or code is not correct."
    nothing = browser.post("/account/passkeys/new/options/", {"name": "", "proof": ""}).json()["detail"]
    assert nothing == "Name: This field is required. Your password: This field is required."
    for _ in range(5):
        browser.post("/account/passkeys/new/options/", form)
    assert browser.post("/account/passkeys/new/options/", form).status_code == 429


def test_a_challenge_counts_once_and_for_its_purpose():
    browser, passkey = open_browser(user("anna")), SoftwarePasskey()
    proof = browser.post("/account/passkeys/proof/").json()["publicKey"]
    registration = json.dumps(passkey.register({"publicKey": {**proof, "user": {"id": "MQ"}}}))
    assert browser.post("/account/passkeys/new/", {"registration": registration}).status_code == 400

    options = browser.post("/account/passkeys/new/options/", NEW).json()
    form = {"registration": json.dumps(passkey.register(options))}
    assert browser.post("/account/passkeys/new/", form).status_code == 200
    again = browser.post("/account/passkeys/new/", form)
    assert (again.status_code, b"took too long" in again.content) == (400, True)
    assert Authenticator.objects.filter(type="webauthn").count() == 1

    stolen = json.dumps(passkey.sign(open_browser().post("/sign-in/passkey/options/").json()))
    other = open_browser()
    other.post("/sign-in/passkey/options/")
    assert other.post("/sign-in/passkey/", {"assertion": stolen}).status_code == 400


def test_a_challenge_ends_after_five_minutes():
    passkey = SoftwarePasskey()
    add_passkey(open_browser(user("anna")), passkey)
    with time_machine.travel(timezone.now(), tick=False) as clock:
        browser = open_browser()
        assertion = json.dumps(passkey.sign(browser.post("/sign-in/passkey/options/").json()))
        clock.shift(301)
        assert browser.post("/sign-in/passkey/", {"assertion": assertion}).status_code == 400


def test_a_copied_key_is_noticed_and_a_synced_one_works():
    synced, counting = SoftwarePasskey(is_counting=False), SoftwarePasskey()
    add_passkey(open_browser(user("anna")), synced)
    assert sign_in(open_browser(), synced).status_code == 302
    assert sign_in(open_browser(), synced).status_code == 302
    add_passkey(open_browser(user("bea")), counting)
    assert sign_in(open_browser(), counting).status_code == 302
    counting.count = 0
    copied = sign_in(open_browser(), counting)
    assert (copied.status_code, b"used elsewhere" in copied.content) == (400, True)


@pytest.mark.parametrize(
    ("public_url", "host", "origin", "owner", "is_accepted"),
    [
        (
            "https://slipway.example.com",
            "internal.local",
            "https://slipway.example.com",
            "slipway.example.com",
            True,
        ),
        (
            "https://slipway.example.com:443",
            "web",
            "https://slipway.example.com",
            "slipway.example.com",
            True,
        ),
        (
            "https://slipway.example.com:8443",
            "web",
            "https://slipway.example.com:8443",
            "slipway.example.com",
            True,
        ),
        (
            "https://slipway.example.com",
            "web",
            "https://evil.slipway.example.com",
            "slipway.example.com",
            False,
        ),
        (
            "https://slipway.example.com",
            "web",
            "https://slipway.example.com:8443",
            "slipway.example.com",
            False,
        ),
        ("https://slipway.example.com", "web", "https://slipway.example.com", "example.com", False),
        ("http://127.0.0.1:8000", "localhost:8000", "http://localhost:8000", "localhost", True),
        ("http://127.0.0.1:8000", "localhost:8000", "http://localhost:9000", "localhost", False),
    ],
)
def test_a_passkey_belongs_to_the_public_address_whatever_a_proxy_passes_on(
    settings: Settings, public_url: str, host: str, origin: str, owner: str, is_accepted: bool
):
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = public_url, ["*"]
    browser = open_browser(user("anna"), headers={"host": host})
    response_status = 200 if is_accepted else 400
    passkey = SoftwarePasskey(origin=origin, owner=owner)
    assert add_passkey(browser, passkey).status_code == response_status


@pytest.mark.parametrize(
    ("public_url", "host", "sentence"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "Open Slipway at http://localhost:8000 to use them."),
        ("https://10.0.0.5", "10.0.0.5", "Passkeys need a host name"),
        ("http://slipway.example.com", "slipway.example.com", "Passkeys need an encrypted connection"),
        (
            "https://slipway.example.com",
            "other.example.com",
            "Open Slipway at https://slipway.example.com to",
        ),
    ],
)
def test_pages_say_where_browsers_refuse_passkeys(
    settings: Settings, public_url: str, host: str, sentence: str
):
    settings.PUBLIC_URL, settings.ALLOWED_HOSTS = public_url, ["*"]
    browser = open_browser(user("anna"), headers={"host": host})
    passkeys_page = browser.get("/account/passkeys/").content.decode()
    assert sentence in passkeys_page
    assert "/account/passkeys/new/" not in passkeys_page
    page = browser.get("/account/passkeys/new/").content.decode()
    assert sentence in page
    assert "data-passkey-create" not in page
    assert "passkey" not in open_browser(headers={"host": host}).get("/sign-in/").content.decode()


def test_a_passkey_is_renamed():
    browser = open_browser(user("anna"))
    add_passkey(browser, SoftwarePasskey())
    row = Authenticator.objects.get(type="webauthn")
    assert browser.post(f"/account/passkeys/{row.pk}/rename/", {"name": "a\u202eb"}).status_code == 400
    assert browser.post(f"/account/passkeys/{row.pk}/rename/", {"name": "Phone"}).status_code == 302
    assert "Phone" in browser.get("/account/passkeys/").content.decode()
    entry = AuditEntry.objects.get(action="user.passkey_rename")
    assert (entry.before, entry.after) == ({"name": "Laptop"}, {"name": "Phone"})


def test_a_passkey_is_removed_after_a_proof_and_opens_nothing_any_more():
    anna, passkey, other = user("anna"), SoftwarePasskey(), SoftwarePasskey()
    browser = open_browser(anna)
    add_passkey(browser, passkey)
    add_passkey(browser, other, name="Phone")
    first, second = Authenticator.objects.filter(type="webauthn").order_by("pk")
    address = f"/account/passkeys/{first.pk}/remove/"
    assert "only second factor" not in browser.get(address).content.decode()
    assert browser.post(address).status_code == 400
    assert browser.post(address, {"proof": "guessed"}).status_code == 400
    assert browser.post(address, {"proof": PASSWORD})["Location"] == "/account/passkeys/"
    assert sign_in(open_browser(), passkey).status_code == 400
    assert sign_in(open_browser(), other).status_code == 302

    address = f"/account/passkeys/{second.pk}/remove/"
    assert "only second factor" in browser.get(address).content.decode()
    assert browser.post(address, prove(browser, other)).status_code == 302
    assert not Authenticator.objects.exists()
    assert list_actions(anna)[-2:] == ["user.passkey_remove", "user.two_factor_off"]
    response = open_browser().post("/sign-in/", {"username": "anna", "password": PASSWORD})
    assert response["Location"] == "/"


def test_passkeys_of_others_are_not_there():
    add_passkey(open_browser(user("anna")), SoftwarePasskey(), name="Of Anna")
    pk, browser = Authenticator.objects.get(type="webauthn").pk, open_browser(user("bea"))
    assert "Of Anna" not in browser.get("/account/passkeys/").content.decode()
    for page in ("rename", "remove"):
        address = f"/account/passkeys/{pk}/{page}/"
        assert browser.get(address).status_code == 404
        assert browser.post(address, {"name": "Mine", "proof": PASSWORD}).status_code == 404
    assert Authenticator.objects.get(pk=pk).data["name"] == "Of Anna"


def test_a_passkey_of_somebody_else_proves_nothing():
    anna, bea = open_browser(user("anna")), open_browser(user("bea"))
    passkey, other = SoftwarePasskey(), SoftwarePasskey()
    add_passkey(anna, passkey)
    add_passkey(bea, other)
    pk = Authenticator.objects.get(user__username="anna", type="webauthn").pk
    assert anna.post(f"/account/passkeys/{pk}/remove/", prove(anna, other)).status_code == 400
    browser = begin_sign_in()
    assertion = json.dumps(other.sign(browser.post("/sign-in/code/options/").json()))
    assert browser.post("/sign-in/code/", {"assertion": assertion}).status_code == 400
    assert AuditEntry.objects.filter(action="user.passkey_failed", thing_name="anna").count() == 2
    other.user_handle = passkey.user_handle
    assert sign_in(open_browser(), other).status_code == 400


def test_a_disabled_user_is_not_signed_in():
    anna, passkey = user("anna"), SoftwarePasskey()
    add_passkey(open_browser(anna), passkey)
    User.objects.filter(pk=anna.pk).update(is_active=False)
    browser = open_browser()
    assert sign_in(browser, passkey).status_code == 403
    assert browser.get("/account/").status_code == 302


def test_an_administrator_resets_passkeys_with_the_other_factors(admin: User):
    anna, passkey = user("anna"), SoftwarePasskey()
    add_passkey(open_browser(anna), passkey)
    browser = open_browser(admin)
    assert "passkeys" in browser.get(f"/access/people/{anna.pk}/second-factor/reset/").content.decode()
    assert browser.post(f"/access/people/{anna.pk}/second-factor/reset/").status_code == 302
    assert sign_in(open_browser(), passkey).status_code == 400
    assert not Authenticator.objects.filter(user=anna).exists()
    entry = AuditEntry.objects.get(action="user.two_factor_off")
    assert (entry.actor, entry.thing_name) == (admin, "anna")
    assert entry.before == {"authenticator_app": False, "passkeys": ["Laptop"]}


def test_the_admin_site_takes_a_passkey_for_a_second_factor(settings: Settings, admin: User):
    settings.ADMIN_NEEDS_SECOND_FACTOR = True
    browser = open_browser(admin)
    assert browser.get("/admin/")["Location"] == "/account/two-factor/"
    add_passkey(browser, SoftwarePasskey())
    assert browser.get("/admin/").status_code == 200


def test_who_signs_in_with_a_provider_proves_with_a_passkey():
    anna = user("anna")
    anna.set_unusable_password()
    anna.save()
    browser, passkey, another = open_browser(anna), SoftwarePasskey(), SoftwarePasskey()
    assert "Your password" not in browser.get("/account/passkeys/new/").content.decode()
    add_passkey(browser, passkey)
    page = browser.get("/account/passkeys/new/").content.decode()
    assert "Recovery code" in page
    assert "Confirm with a passkey and add" in page
    assert browser.post("/account/passkeys/new/options/", {"name": "Phone"}).status_code == 400
    options = browser.post("/account/passkeys/new/options/", {"name": "Phone", **prove(browser, passkey)})
    form = {"registration": json.dumps(another.register(options.json()))}
    assert browser.post("/account/passkeys/new/", form).status_code == 302
    assert Authenticator.objects.filter(type="webauthn").count() == 2


def test_who_signs_in_with_a_provider_adds_an_app_after_a_proof_by_passkey():
    anna = user("anna")
    anna.set_unusable_password()
    anna.save()
    browser, passkey = open_browser(anna), SoftwarePasskey()
    assert 'name="proof"' not in browser.get("/account/two-factor/").content.decode()
    add_passkey(browser, passkey)
    page = browser.get("/account/two-factor/").content.decode()
    assert "Confirm with a passkey and add" in page
    secret = re.search(r'id="key">([A-Z2-7]+)<', page)[1]
    form = {"code": generate_code(secret)}
    assert browser.post("/account/two-factor/", form).status_code == 400
    assert browser.post("/account/two-factor/", form | {"proof": "1234567890"}).status_code == 400
    assert not Authenticator.objects.filter(type="totp").exists()
    response = browser.post("/account/two-factor/", form | prove(browser, passkey))
    assert response["Location"] == "/account/"


def test_requests_from_one_address_and_passkeys_of_one_user_are_limited():
    browser = open_browser()
    for _ in range(PASSKEY_REQUESTS_PER_ADDRESS):
        assert browser.post("/sign-in/passkey/options/").status_code == 200
    assert browser.post("/sign-in/passkey/options/").status_code == 429
    assert browser.post("/sign-in/passkey/").status_code == 429

    anna, passkey = user("anna"), SoftwarePasskey()
    browser = open_browser(anna)
    add_passkey(browser, passkey)
    row = Authenticator.objects.get(type="webauthn")
    Authenticator.objects.bulk_create(
        Authenticator(user=anna, type="webauthn", data=row.data) for _ in range(PASSKEYS_PER_USER - 1)
    )
    refused = browser.post("/account/passkeys/new/options/", NEW)
    assert (refused.status_code, "Remove one" in refused.json()["detail"]) == (400, True)


def test_wrong_passkeys_after_the_password_are_counted_like_codes():
    add_passkey(open_browser(user("anna")), SoftwarePasskey())
    browser = begin_sign_in()
    for _ in range(5):
        assert browser.post("/sign-in/code/", {"assertion": "{}"}).status_code == 400
    assert browser.post("/sign-in/code/", {"assertion": "{}"}).status_code == 429
    assert browser.get("/sign-in/code/")["Location"] == "/sign-in/"
    assert browser.post("/sign-in/code/options/").status_code == 400


def test_without_scripts_pages_say_what_is_missing():
    browser = open_browser(user("anna"))
    page = browser.post("/account/passkeys/new/", {**NEW, "registration": ""})
    assert (page.status_code, b"needs JavaScript" in page.content) == (400, True)
    page = open_browser().post("/sign-in/passkey/", {"assertion": ""})
    assert (page.status_code, b"needs JavaScript" in page.content) == (400, True)


def test_browsers_may_ask_for_passkeys_on_these_pages_only_for_this_site(client: Client):
    policy = client.get("/sign-in/")["Permissions-Policy"]
    assert "publickey-credentials-get=(self)" in policy
    assert "publickey-credentials-create=(self)" in policy
