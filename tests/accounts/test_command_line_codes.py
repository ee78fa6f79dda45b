"""The page that signs a command line in, and the exchange of its one-time code."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from accounts.authentication.passwords import reset_password
from accounts.command_line_codes import build_challenge
from rbac.models import ApiKey, AuditEntry, User
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
VERIFIER = planted("v") * 4
STATE = "s" * 32
Browse = Callable[[User], Client]


def build_url(**changes: str) -> str:
    query = {"challenge": build_challenge(VERIFIER), "state": STATE, "port": "50123", "host": "laptop"}
    return f"{reverse('command-line-sign-in')}?{urlencode(query | changes)}"


def approve(client: Client, **fields: str) -> str:
    """Approve a sign-in, and return the address that the browser continues at."""
    answer = client.post(build_url(), {"name": "slipway on laptop", "expires": "90", **fields})
    assert answer.status_code == 200, answer.content.decode()
    [url] = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', answer.content.decode())
    return unescape(url)


def get_code(url: str) -> str:
    return parse_qs(urlsplit(url).query)["code"][0]


def exchange(code: str, verifier: str = VERIFIER) -> tuple[int, dict[str, str]]:
    answer = APIClient().post(
        reverse("api-command-line-sign-ins"), {"code": code, "verifier": verifier}, format="json"
    )
    return answer.status_code, answer.json()


def test_a_code_becomes_a_personal_key_once(deployer: User, browse: Browse) -> None:
    page = browse(deployer).get(build_url())
    url = approve(browse(deployer))

    status, document = exchange(get_code(url))
    again, _ = exchange(get_code(url))

    assert 'value="slipway on laptop"' in page.content.decode()
    assert url.startswith(f"http://127.0.0.1:50123/?state={STATE}&code=")
    assert (status, document["username"], again) == (201, "deployer", 400)
    [key] = ApiKey.objects.filter(user=deployer)
    assert key.expires_at is not None
    assert timedelta(days=89) < key.expires_at - timezone.now() <= timedelta(days=90)
    me = APIClient(headers={"x-api-key": document["key"]}).get("/api/v1/me").json()
    assert me["username"] == "deployer"
    assert AuditEntry.objects.filter(action="apikey.create", actor=deployer).count() == 1


def test_without_a_port_the_page_shows_the_code_only(deployer: User, browse: Browse) -> None:
    answer = browse(deployer).post(build_url(port=""), {"name": "server", "expires": ""})

    text = answer.content.decode()
    assert "http-equiv" not in text
    [code] = re.findall(r'<code class="path" id="key">([^<]+)</code>', text)
    assert exchange(unescape(code))[0] == 201


def test_a_code_is_refused_to_others_and_after_five_minutes(deployer: User, browse: Browse) -> None:
    code = get_code(approve(browse(deployer)))

    assert exchange(code, "another-verifier" * 4)[0] == 400
    assert exchange(f"{code[:-3]}abc")[0] == 400
    with time_machine.travel(timezone.now() + timedelta(minutes=6)):
        assert exchange(code)[0] == 400
    User.objects.filter(pk=deployer.pk).update(is_active=False)
    assert exchange(code)[0] == 400
    assert not ApiKey.objects.exists()


def test_a_new_password_ends_the_codes_from_before(deployer: User, browse: Browse) -> None:
    code = get_code(approve(browse(deployer)))

    reset_password(person=deployer, password=planted("a quite different staple"))

    assert exchange(code)[0] == 400
    assert not ApiKey.objects.exists()


def test_a_key_for_a_scope_is_not_made_without_it(deployer: User, browse: Browse) -> None:
    code = get_code(approve(browse(deployer), within="account/default/demo", uses="view"))

    status, document = exchange(code)

    assert (status, document["scope"]) == (201, "account/default/demo")
    assert all(
        permission.endswith("_view") for permission in document["permissions"] if "core_" in permission
    )


def test_a_name_that_is_used_is_refused_on_the_page(deployer: User, browse: Browse) -> None:
    exchange(get_code(approve(browse(deployer))))

    page = browse(deployer).get(build_url())
    refused = browse(deployer).post(build_url(), {"name": "slipway on laptop", "expires": "90"})

    assert 'value="slipway on laptop (2)"' in page.content.decode()
    assert refused.status_code == 400
    assert "already have an API key with this name" in refused.content.decode()


@pytest.mark.parametrize(
    "change",
    [
        {"challenge": "short"},
        {"state": "<script>"},
        {"port": "80"},
        {"port": "70000"},
        {"port": "1@evil.example"},
    ],
)
def test_an_incomplete_link_is_refused(deployer: User, browse: Browse, change: dict[str, str]) -> None:
    client = browse(deployer)

    assert client.get(build_url(**change)).status_code == 400
    assert client.post(build_url(**change), {"name": "x"}).status_code == 400


def test_a_misleading_host_is_not_shown(deployer: User, browse: Browse) -> None:
    page = browse(deployer).get(build_url(host="lap\u202etop")).content.decode()

    assert 'value="slipway"' in page


def test_the_page_is_for_signed_in_people(client: Client) -> None:
    assert client.get(build_url()).status_code == 302
