"""Signing in by an API key: what is stored, and what the user is told."""

import json

import pytest
from pytest_django.live_server_helper import LiveServer

from rbac.models import User
from rbac.operations.api_keys import create_api_key
from tests.fixtures.command_line import CommandLine
from tests.ports import free_port
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def key(deployer: User) -> str:
    return create_api_key(actor=deployer, user=deployer, name="terminal")[1]


def test_a_key_from_standard_input_is_stored_for_this_user_only(
    command_line: CommandLine, live_server: LiveServer, key: str
) -> None:
    answer = command_line.run("login", "--url", live_server.url, stdin=f"{key}\n")

    assert answer.returncode == 0, answer.stderr
    assert f"Signed in to {live_server.url} as deployer" in answer.stdout
    assert key not in answer.stdout + answer.stderr
    assert command_line.credentials.stat().st_mode & 0o777 == 0o600
    who = command_line.run("whoami", "--json")
    assert json.loads(who.stdout)["username"] == "deployer"
    out = command_line.run("logout")
    assert (out.returncode, "still works until you revoke it" in out.stdout) == (0, True)
    assert key not in command_line.credentials.read_text()
    assert command_line.run("whoami").returncode == 3


def test_a_sign_out_without_the_server_says_that_the_key_lives_on(command_line: CommandLine) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    entry = {"key": planted("key-of-a-browser"), "username": "deployer", "key_id": 7}
    command_line.credentials.parent.mkdir(parents=True, exist_ok=True)
    command_line.credentials.write_text(json.dumps({"servers": {url: entry}, "current": url}))
    answer = command_line.run("logout")

    assert answer.returncode == 6
    assert "could not be revoked" in answer.stderr
    assert f"{url}/access/keys/" in answer.stderr
    assert entry["key"] not in command_line.credentials.read_text()


def test_a_wrong_key_is_not_stored(command_line: CommandLine, live_server: LiveServer, key: str) -> None:
    answer = command_line.run("login", "--url", live_server.url, SLIPWAY_API_KEY=f"{key}x")

    assert answer.returncode == 3
    assert "unknown, revoked or expired" in answer.stderr
    assert not command_line.credentials.exists()


def test_without_a_sign_in_the_next_step_is_named(command_line: CommandLine) -> None:
    answer = command_line.run("whoami")

    assert answer.returncode == 3
    assert "slipway login" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_unusable_values_are_explained(command_line: CommandLine, live_server: LiveServer, key: str) -> None:
    login = ("login", "--url", live_server.url)
    empty = command_line.run(*login, stdin="\n")
    not_ascii = command_line.run("whoami", SLIPWAY_URL=live_server.url, SLIPWAY_API_KEY="kéy")
    unwritable = command_line.run(*login, SLIPWAY_API_KEY=key, XDG_CONFIG_HOME="/proc/no-folder")

    assert (empty.returncode, not_ascii.returncode, unwritable.returncode) == (2, 2, 1)
    assert "My API keys" in empty.stderr
    assert "My API keys" in not_ascii.stderr
    assert "cannot be written" in unwritable.stderr
    assert "Traceback" not in empty.stderr + not_ascii.stderr + unwritable.stderr


def test_a_server_that_does_not_answer_is_named(command_line: CommandLine) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    answer = command_line.run("whoami", SLIPWAY_URL=url, SLIPWAY_API_KEY="some-key")

    assert answer.returncode == 6
    assert f"{url} cannot be reached" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "url", ["ftp://slipway.example", "https://user:password@slipway.example", "https://"]
)
def test_other_addresses_are_refused(command_line: CommandLine, url: str) -> None:
    answer = command_line.run("whoami", SLIPWAY_URL=url, SLIPWAY_API_KEY="some-key")

    assert answer.returncode == 2
    assert "is not the URL of a server" in answer.stderr
