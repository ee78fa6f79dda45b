"""`slipway login` through a page: a browser brings the code back, or a person enters it."""

import json
import sys
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from rbac.models import ApiKey, User
from tests.fixtures.command_line import CommandLine

pytestmark = pytest.mark.django_db(transaction=True)

# A browser without a window: signed in by its cookie, it approves the page, and goes where that leads.
BROWSER = """
import html, os, re, sys
import httpx

with httpx.Client(cookies=[os.environ["TEST_COOKIE"].split("=", 1)], trust_env=False) as browser:
    url = sys.argv[1]
    page = browser.get(url)
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[:1]
    name = os.environ.get("TEST_NAME", "terminal")
    fields = {"csrfmiddlewaretoken": token, "name": name, "expires": "30"}
    done = browser.post(url, data=fields, headers={"Origin": url.split("/access")[0]})
    [code] = re.findall(r'<code class="path" id="key">([^<]+)</code>', done.text)
    print(html.unescape(code))
    for target in re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', done.text):
        assert "signed in" in httpx.get(html.unescape(target), trust_env=False).text
"""


@pytest.fixture
def browser(tmp_path: Path, deployer: User, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Path:
    """The program of a browser in which the deployer is signed in."""
    client = Client()
    client.force_login(deployer)
    name = settings.SESSION_COOKIE_NAME
    monkeypatch.setenv("TEST_COOKIE", f"{name}={client.cookies[name].value}")
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    return program


def test_a_browser_of_this_machine_brings_the_code_back(
    command_line: CommandLine, live_server: LiveServer, browser: Path
) -> None:
    answer = command_line.run(
        "login",
        "--url",
        live_server.url,
        "--browser",
        BROWSER=f"{sys.executable} {browser} %s",
        SSH_CONNECTION="",
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "as deployer" in answer.stdout
    assert json.loads(command_line.run("whoami", "--json").stdout)["username"] == "deployer"
    key = ApiKey.objects.get()
    # A key that expires may not manage keys, but may end itself.
    assert (key.name, key.expires_at is not None) == ("terminal", True)

    out = command_line.run("logout")
    assert (out.returncode, "The API key is revoked" in out.stdout) == (0, True), out.stderr
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert command_line.run("whoami").returncode == 3


def test_a_new_sign_in_revokes_the_key_that_it_replaces(
    command_line: CommandLine, live_server: LiveServer, browser: Path
) -> None:
    command = ("login", "--url", live_server.url, "--browser")
    for name in ("first", "second"):
        answer = command_line.run(
            *command, BROWSER=f"{sys.executable} {browser} %s", SSH_CONNECTION="", TEST_NAME=name
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "The former API key is revoked." in answer.stdout
    assert [key.name for key in ApiKey.objects.filter(revoked_at=None)] == ["second"]
    assert command_line.run("whoami").returncode == 0


def test_a_person_enters_the_code_that_the_page_shows(
    command_line: CommandLine, live_server: LiveServer, browser: Path
) -> None:
    with command_line.running("login", "--url", live_server.url, "--code") as process:
        assert process.stderr is not None
        process.stderr.readline()
        page = process.stderr.readline().strip()
        code = command_line.run_program(sys.executable, str(browser), page).stdout
        output, errors = process.communicate(code, timeout=60)

    assert process.returncode == 0, output + errors
    assert "as deployer" in output
