"""Whoever reads the database, a log or the audit trail gets nothing to sign in with."""

import re
import time
from collections.abc import Callable

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from delegates.operations.tokens import create_token
from rbac import operations
from rbac.models import Role, Scope, User
from rbac.operations.api_keys import create_api_key, rotate_api_key
from tests.fixtures.people import PASSWORD
from tests.secrecy.planted_secrets import Planted, Search
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db

NEW_PASSWORD = planted("another correct horse, 4711")


@pytest.fixture(autouse=True)
def _no_failures_yet() -> None:
    cache.clear()


def two_factor(client: Client) -> list[str]:
    """Turn the second factor on; its secret and the recovery codes."""
    setup_page = client.get("/account/two-factor/").content.decode()
    match = re.search(r'id="key">([A-Z2-7]+)<', setup_page)
    assert match is not None
    code = format_hotp_value(hotp_value(match[1], int(time.time()) // 30))
    codes = client.post("/account/two-factor/", {"code": code, "proof": PASSWORD}).content.decode()
    return [match[1], *re.findall(r"<li><code>(\d{10})</code>", codes)]


def test_no_credential_lies_in_the_database_or_in_a_log(
    project: Scope, admin: User, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Client()
    wrong = {"username": "admin", "password": NEW_PASSWORD}
    assert b"password" in browser.post("/sign-in/", wrong).content
    browser.post("/sign-in/", {"username": "admin", "password": PASSWORD})
    factors = two_factor(browser)
    assert len(factors) == 11
    key, token = create_api_key(actor=admin, user=admin, name="planted")
    role = Role.objects.get(identifier="viewer", scope=None)
    _, invitation = operations.create_invitation(
        actor=admin, email="bea@example.com", scope=project, role=role, days=1
    )
    planted = [
        Planted("password", PASSWORD),
        Planted("another password", NEW_PASSWORD),
        Planted("API key", token),
        Planted("rotated API key", rotate_api_key(actor=admin, key=key, grace_seconds=60)),
        Planted("delegate token", create_token(actor=admin, scope=project, name="planted").value),
        Planted("invitation", invitation),
        *(Planted(f"factor {number}", factor) for number, factor in enumerate(factors)),
    ]
    search = Search(planted)
    search.search_database()
    search.search_content("log", caplog.text)
    assert search.findings == []


def test_a_key_that_is_refused_is_not_repeated(
    admin: User, call: Callable[[User], APIClient], caplog: pytest.LogCaptureFixture
) -> None:
    _, token = create_api_key(actor=admin, user=admin, name="planted")
    search = Search([Planted("API key", token[:-2])])
    for header, value in (
        ("x-api-key", f"{token}x"),
        ("authorization", f"Bearer {token}x"),
        ("cookie", f"sessionid={token}"),
    ):
        answer = APIClient().get("/api/v1/secrets", headers={header: value})
        assert answer.status_code == 401
        search.search_content("answer", answer.content)
    search.search_content("log", caplog.text)
    search.search_database()
    assert search.findings == []
