"""Signing in through a browser: with codes of an app, with a passkey, and with a provider."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from rbac.models import User
from tests.accounts.test_two_factor import generate_code
from tests.fixtures.identity_provider import Provider
from tests.fixtures.people import PASSWORD, make_person

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def anna(account: object) -> User:
    cache.clear()
    return make_person("anna")


def give_password(page: Page, site: str) -> None:
    page.goto(f"{site}/sign-in/?next=/account/")
    page.get_by_label("User name").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_a_person_sets_up_an_app_and_signs_in_with_its_codes(
    page: Page, live_server: LiveServer, anna: User, complaints: list[str]
) -> None:
    site = live_server.url
    give_password(page, site)
    page.get_by_role("link", name="Set up").click()
    picture = page.get_by_role("img", name="QR code of the key below")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    secret = page.locator("#key").inner_text()

    page.get_by_label("Code from the app").fill(generate_code(secret))
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Turn on two-factor authentication").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    recovery = page.locator(".codes code").first.inner_text()

    for code in (generate_code(secret, 1), recovery):
        page.get_by_label("Your menu: anna").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        give_password(page, site)
        expect(page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
        page.get_by_label("Code").fill(code)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="anna")).to_be_visible()
    assert Authenticator.objects.get(type="totp").data["secret"] != secret


@pytest.fixture
def authenticator(page: Page) -> Callable[[], list[dict[str, Any]]]:
    """A security key of the browser, with a PIN that was entered; returns a function that lists its keys."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True}
    options |= {"hasUserVerification": True, "isUserVerified": True, "automaticPresenceSimulation": True}
    key = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return lambda: devtools.send("WebAuthn.getCredentials", key)["credentials"]


def sign_out(page: Page) -> None:
    page.get_by_label("Your menu: anna").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_person_adds_a_passkey_and_signs_in_with_it_alone_and_after_the_password(
    page: Page,
    live_server: LiveServer,
    anna: User,
    authenticator: Callable[[], list[dict[str, Any]]],
    complaints: list[str],
) -> None:
    give_password(page, live_server.url)
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Name").fill("Work laptop")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert [key["rpId"] for key in authenticator()] == ["localhost"]

    sign_out(page)
    page.goto(f"{live_server.url}/sign-in/?next=/account/passkeys/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("rowheader", name="Work laptop")).to_be_visible()

    sign_out(page)
    give_password(page, live_server.url)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="anna")).to_be_visible()

    page.get_by_role("link", name="Manage passkeys").click()
    page.get_by_role("link", name="Remove Work laptop").click()
    page.get_by_role("button", name="Confirm with a passkey and remove").click()
    expect(page.get_by_text("Work laptop was removed.")).to_be_visible()
    assert not Authenticator.objects.exists()

    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("This passkey was removed here")
    # The browser complains about the status of the refusal.
    complaints.clear()


def test_a_person_comes_in_from_the_provider_s_own_page(
    page: Page, live_server: LiveServer, account: object, provider: Provider
) -> None:
    cache.clear()
    provider.add_user("b-1", preferred_username="bea")
    page.goto(f"{live_server.url}/sign-in/?next=/account/")
    page.get_by_role("link", name="Sign in with Example Login").click()
    expect(page.get_by_placeholder("sub")).to_be_visible()
    assert parse_qs(urlsplit(page.url).query)["client_id"] == ["slipway"]
    page.get_by_placeholder("sub").fill("b-1")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("heading", name="bea")).to_be_visible()
    assert page.url == f"{live_server.url}/account/"
