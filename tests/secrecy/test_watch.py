"""The watch itself: in each place where a planted secret can get to, it is seen there."""

import base64
import gzip
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from asgiref.testing import ApplicationCommunicator
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import InMemoryChannelLayer
from django.core.cache import cache
from django.core.mail import send_mail
from django.test import Client
from kombu import Connection
from playwright.sync_api import Page

from connectors.models import Secret
from rbac.models import Scope
from tests.fixtures.secret_watch import judged
from tests.fixtures.threads import run_concurrently
from tests.secret_watch import sinks
from tests.secret_watch.browser_text import search_page
from tests.secret_watch.files import Files
from tests.secret_watch.marker import MARKER, planted
from tests.secret_watch.watch import expected, search_content
from web.http.asgi_limits import RequestLimits
from web.http.sessions import SessionStore

VALUE = planted("/value+of 'a' \"secret\"")
# What it says reaches no output, which would be searched as well.
QUIET = logging.Logger("quiet")
QUIET.addHandler(logging.NullHandler())


@pytest.mark.parametrize(
    "content",
    [
        VALUE,
        json.dumps({"value": VALUE}),
        quote(VALUE, safe=""),
        *(base64.b64encode(f"{'x' * before}{VALUE}!".encode()) for before in range(3)),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        gzip.compress(VALUE.encode(), mtime=0),
    ],
    ids=["plain", "json", "address", "base64", "base64-1", "base64-2", "hex", "upper-hex", "gzipped"],
)
def test_each_form_is_found(content: str | bytes) -> None:
    with expected() as findings:
        search_content("place", content)
    assert findings


def _by_sql() -> None:
    Scope.objects.filter(name=VALUE).exists()


def _by_sql_of_a_thread() -> None:
    run_concurrently(_by_sql)


def _by_many_statements() -> None:
    Scope.objects.filter(name__in=["x", VALUE]).update(name="y")


def _by_log() -> None:
    QUIET.warning("It is %s", VALUE)


def _by_trace() -> None:
    try:
        raise ValueError(VALUE)
    except ValueError:
        QUIET.exception("failed")


def _by_mail() -> None:
    send_mail("Welcome", VALUE, "a@example.com", ["b@example.com"])


def _by_cache() -> None:
    cache.set("key", {"value": VALUE})


def _by_session() -> None:
    SessionStore().encode({"value": VALUE})


def _by_task() -> None:
    with Connection("memory://") as broker, broker.SimpleQueue("planted") as queue:
        queue.put({"value": VALUE})


def _by_answer() -> None:
    Client().get("/sign-in/", {"next": f"/{MARKER}"})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("write", "place"),
    [
        (_by_sql, "SQL"),
        (_by_sql_of_a_thread, "SQL"),
        (_by_many_statements, "SQL"),
        (_by_log, "log of quiet"),
        (_by_trace, "log of quiet"),
        (_by_mail, "mail"),
        (_by_cache, "message"),
        (_by_session, "message"),
        (_by_task, "message"),
        (_by_answer, "answer to GET /sign-in/"),
    ],
)
def test_each_place_is_watched(write: Callable[[], None], place: str) -> None:
    with expected() as findings:
        write()
    assert any(finding.startswith(place) for finding in findings), findings


def test_what_a_test_and_its_processes_print_fails_it() -> None:
    printed = [("Captured stdout call", f"is {VALUE}")]
    report = pytest.TestReport("", ("", 0, ""), {}, "passed", None, "call", printed)
    assert judged(report).failed
    assert str(report.longrepr).startswith("A planted secret turned up:\nCaptured stdout call: is ")


class Telling(AsyncWebsocketConsumer):
    """Tells everyone the secret."""

    async def connect(self) -> None:
        await self.accept()
        await self.send(text_data=VALUE)


@pytest.mark.django_db(transaction=True)
async def test_a_frame_of_a_socket_and_a_message_to_one_are_seen() -> None:
    with expected() as findings:
        socket = ApplicationCommunicator(Telling.as_asgi(), {"type": "websocket", "path": "/ws/"})
        await socket.send_input({"type": "websocket.connect"})
        assert (await socket.receive_output(60))["type"] == "websocket.accept"
        assert (await socket.receive_output(60))["text"] == VALUE
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait()
        await InMemoryChannelLayer().send("channel", {"value": VALUE})
    assert {finding.split(":")[0] for finding in findings} == {"socket", "message"}


PATHS = ["/agent/v1/heartbeat", "/agent/v1/tasks/acquire", "/agent/v1/configuration/secrets"]


@pytest.mark.parametrize("path", PATHS)
async def test_only_where_an_agent_is_lent_it_a_value_may_leave(path: str) -> None:
    async def answer(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.body", "body": VALUE.encode()})

    async def sent(_event: Any) -> None:
        return

    scope = {"type": "http", "path": path, "raw_path": path.encode(), "headers": []}
    with expected() as findings:
        await RequestLimits(answer)(scope, sent, sent)
    assert [finding.split(":")[0] for finding in findings] == (
        [] if f"http {path}" in sinks.ALLOWED else [f"http {path}"]
    )
    assert len(sinks.ALLOWED) == 2


def test_what_valkey_is_told_is_seen(broker_url: str) -> None:
    with expected() as findings, redis.Redis.from_url(broker_url) as client:
        client.setex("key", 1, VALUE)
    assert findings
    assert findings[0].startswith("Valkey")


def test_what_another_process_says_is_seen(child_environment: Mapping[str, str]) -> None:
    program = "import django; django.setup(); import logging, sys; logging.error(bytes.fromhex(sys.argv[1]))"
    with expected() as findings:
        subprocess.run(
            [sys.executable, "-c", program, VALUE.encode().hex()],
            env=dict(child_environment),
            check=True,
            capture_output=True,
        )
    assert any(finding.startswith("log of root") for finding in findings), findings


def test_a_file_is_seen_and_seen_again_when_it_changes(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "some.log"
    file.write_bytes(b"nothing")
    files.search_folder(tmp_path)
    file.write_bytes(b"\xff " + VALUE.encode())
    with expected() as findings:
        files.search_folder(tmp_path)
        files.search_folder(tmp_path)
    file.unlink()
    assert len(findings) == 1
    assert findings[0].startswith(f"file {file}")


@pytest.mark.django_db
def test_a_secret_that_could_not_be_found_is_refused(project: Scope) -> None:
    with expected() as findings:
        Secret.objects.create(scope=project, identifier="key", name="Key", value="anything")
    assert findings == ["the test: the secret key is made without `planted`"]


@pytest.mark.browser
@pytest.mark.parametrize(
    "markup",
    [f"<p>{MARKER}", f"<p title='{MARKER}'>", "<textarea></textarea>"],
    ids=["text", "attribute", "entered"],
)
def test_what_a_page_shows_is_seen(page: Page, markup: str) -> None:
    page.set_content(markup)
    if "<textarea>" in markup:
        page.locator("textarea").fill(VALUE)
    with expected() as findings:
        search_page(page)
    page.set_content("")
    assert findings
