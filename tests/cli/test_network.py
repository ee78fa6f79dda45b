"""What the command line does on a network that loses answers, and with answers that no Slipway sends."""

import json
import signal
from collections.abc import Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

from deployments.models import Execution
from tests.fixtures.command_line import CommandLine
from tests.fixtures.engine_driver import Drive
from tests.fixtures.lossy_network import Network, lossy_network

pytestmark = pytest.mark.django_db(transaction=True)
JSON = {"content-type": "application/json"}


@pytest.fixture
def network(live_server: LiveServer) -> Iterator[Network]:
    with lossy_network(live_server.url) as network:
        yield network


def test_a_lost_answer_starts_one_run(deployer_line: CommandLine, network: Network) -> None:
    network.lose_answer = lambda method, path, count: method == "POST" and count == 0

    answer = deployer_line.run("run", "rolling_demo", "--json", SLIPWAY_URL=network.url)

    assert answer.returncode == 0, answer.stderr
    assert [method for method, _ in network.requests].count("POST") == 2
    assert json.loads(answer.stdout)["id"] == str(Execution.objects.get().pk)


def test_a_log_is_continued_at_the_next_line(
    deployer_line: CommandLine, drive: Drive, network: Network
) -> None:
    execution = drive.run("1.27")
    # More than the client repeats by itself.
    network.lose_answer = lambda method, path, count: path.endswith("/log") and count < 5

    answer = deployer_line.run("logs", "1", "--follow", "--json", SLIPWAY_URL=network.url)

    events = [json.loads(line) for line in answer.stdout.splitlines()]
    numbers = [event["number"] for event in events if event["event"] == "log"]
    assert answer.returncode == 0, answer.stderr
    assert numbers == list(range(1, execution.next_line_number))
    assert [event["event"] for event in events if event["event"] not in ("log", "execution")] == [
        "notice",
        "notice",
        "result",
    ]


def test_a_watch_goes_on_after_the_limit_of_requests(
    deployer_line: CommandLine, drive: Drive, network: Network
) -> None:
    drive.run("1.27")
    too_many = (429, {**JSON, "retry-after": "0"}, b'{"detail": "Too many requests", "code": "too_many"}')
    # More than the client repeats by itself.
    network.reply = lambda method, path, count: too_many if path.endswith("/log") and count < 6 else None

    answer = deployer_line.run("logs", "1", "--follow", "--json", SLIPWAY_URL=network.url)

    assert answer.returncode == 0, answer.stderr
    notices = [event["text"] for event in map(json.loads, answer.stdout.splitlines()) if "text" in event]
    assert any("Too many requests (status 429). The execution continues" in notice for notice in notices), (
        notices
    )


def test_an_abort_on_interrupt_is_sent_until_the_server_takes_it(
    deployer_line: CommandLine, drive: Drive, network: Network
) -> None:
    execution = drive.start("1.27")
    away = (503, JSON, b'{"detail": "Restarting", "request_id": "r1"}')
    # More than the client repeats by itself.
    network.reply = lambda method, path, count: away if path.endswith("/abort") and count < 6 else None
    command = ("logs", "1", "--follow", "--json", "--on-interrupt", "abort")

    with deployer_line.running(*command, SLIPWAY_URL=network.url) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] in ("execution", "log")
        process.send_signal(signal.SIGINT)
        notices = []
        while not notices or "Abort requested" not in notices[-1]:
            event = json.loads(process.stdout.readline())
            notices += [event["text"]] if event["event"] == "notice" else []
        assert execution.interrupts.count() == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert "Restarting" in notices[0]
    assert [path.endswith("/abort") for method, path in network.requests if method == "POST"] == [True] * 7


@pytest.mark.parametrize(
    ("status", "headers", "body", "code", "words"),
    [
        (200, {"content-type": "text/html"}, b"<h1>Welcome</h1>", 1, "does not answer as Slipway"),
        (404, {"content-type": "text/html"}, b"nginx", 1, "does not answer as Slipway (status 404"),
        (302, {"location": "https://elsewhere.example/"}, b"", 1, "redirects to https://elsewhere"),
        (500, JSON, b'{"detail": "Oops", "request_id": "r1"}', 6, "under request r1"),
        (429, JSON, b'{"detail": "Too many"}', 6, "Try again in a minute"),
        (403, JSON, b'{"detail": "No", "errors": [{"message": "core_x"}]}', 4, "a role with core_x"),
        (
            400,
            JSON,
            b'{"detail": "\\u001b]0;owned\\u0007\\u202eBad [red]input[/red]"}',
            1,
            "Bad [red]input[/red]",
        ),
        (200, JSON, b"[]", 1, "does not answer as Slipway"),
    ],
)
def test_other_answers_are_explained_without_a_traceback(
    command_line: CommandLine,
    network: Network,
    status: int,
    headers: dict[str, str],
    body: bytes,
    code: int,
    words: str,
) -> None:
    network.reply = lambda method, path, count: (status, headers, body)

    answer = command_line.run("whoami", SLIPWAY_URL=network.url, SLIPWAY_API_KEY="some-key")

    assert answer.returncode == code, answer.stderr
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(answer.stdout + answer.stderr)


def test_texts_of_the_server_reach_the_terminal_without_control_sequences(
    command_line: CommandLine, network: Network
) -> None:
    user = {"username": "\x1b[2J\x1b]52;c;ZXZpbA==\x07anna", "name": "[link=x]A[/link]", "email": "a\rb"}
    network.reply = lambda method, path, count: (200, JSON, json.dumps(user).encode())

    plain = command_line.run("whoami", SLIPWAY_URL=network.url, SLIPWAY_API_KEY="k", FORCE_COLOR="1")
    quoted = command_line.run("whoami", "--json", SLIPWAY_URL=network.url, SLIPWAY_API_KEY="k")

    assert "\x1b]" not in plain.stdout
    assert "\x1b[2J" not in plain.stdout
    assert "anna" in plain.stdout
    assert "[link=x]A[/link]" in plain.stdout
    assert "\x1b" not in quoted.stdout
    assert json.loads(quoted.stdout)["username"] == user["username"]


def test_colors_are_off_by_no_color(command_line: CommandLine) -> None:
    colored = command_line.run("whoami", FORCE_COLOR="1")
    plain = command_line.run("whoami", FORCE_COLOR="1", NO_COLOR="1")

    assert "\x1b[31m" in colored.stderr
    assert "\x1b[31m" not in plain.stderr
