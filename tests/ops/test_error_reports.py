"""Errors that Sentry receives: where they happened, and neither people nor secrets nor URLs."""

import gzip
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.db import OperationalError

from config.error_reports import EventScrubber, filter_breadcrumb
from guards.log_lines import bind_log_fields
from tests.fixtures.processes import ROOT, wait_until

SECRET = "tok-9f8e7d6c5b4a"
# A request, a Celery task and a line of the log that fail, in a process with the DSN.
PROGRAM = """
import logging
import django
django.setup()
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from config.celery import app
from accounts.pages import invitations
from django.conf import settings

def fail(token):
    password = settings.SECRET_KEY
    raise ValueError(f"a mistake of ours with {password}")

invitations.get_invitation_by_token = fail
Client(raise_request_exception=False, HTTP_HOST="localhost", HTTP_COOKIE="slipway=cookie-0123456789").get(
    "/join/slp_inv_0123456789/?next=query-0123456789", headers={"X-Request-Id": "request-0123456789"}
)

@app.task(name="tests.fail")
def fail_task(**_):
    raise KeyError("a task")

fail_task.apply(kwargs={"argument": "argument-0123456789"})
logging.getLogger("slipway.test").error("a line for %s", "execution", extra={"execution": "e-1"})
import sentry_sdk
sentry_sdk.flush()
"""


class FakeIngest:
    """The end of Sentry that receives events, on loopback."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.text = ""
        self.dsn = ""

    def receive(self, body: bytes) -> None:
        self.text += body.decode()
        lines = [json.loads(line) for line in body.splitlines() if line.startswith(b"{")]
        self.events += [line for line in lines if "event_id" in line and "platform" in line]


@pytest.fixture
def ingest() -> Iterator[FakeIngest]:
    ingest = FakeIngest()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_compressed = self.headers.get("Content-Encoding") == "gzip"
            ingest.receive(gzip.decompress(body) if is_compressed else body)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        ingest.dsn = f"http://public@127.0.0.1:{server.server_address[1]}/1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ingest
        server.shutdown()


@pytest.mark.django_db(transaction=True)
def test_sentry_receives_errors_of_requests_tasks_and_log_without_their_data(
    ingest: FakeIngest, child_environment: dict[str, str]
) -> None:
    environment = {
        **child_environment,
        "SENTRY_DSN": ingest.dsn,
        "SECRET_KEY": f"{SECRET}-of-the-installation",
    }
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, check=True, timeout=120)
    wait_until(lambda: len(ingest.events) >= 3, "three events")

    request, task, line = ingest.events
    assert request["transaction"] == "/join/{token}/"
    assert request["tags"]["request_id"] == "request-0123456789"
    (error,) = request["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "a mistake of ours with •••")
    assert task["exception"]["values"][0]["type"] == "KeyError"
    assert line["logentry"]["message"] == "a line for %s"
    assert line["tags"]["execution"] == "e-1"
    for text in (SECRET, "slp_inv", "query-", "cookie-", "argument-", '"vars"', '"user"'):
        assert text not in ingest.text
    assert all(event["release"].startswith("slipway@") for event in ingest.events)


def test_an_event_keeps_only_known_parts_and_the_fields_of_the_log() -> None:
    event = {
        "message": f"refused {SECRET}",
        "request": {"url": "http://testserver/join/x/"},
        "user": {"username": "bea"},
        "extra": {"sys.argv": ["x"]},
        "contexts": {"celery-job": {"kwargs": {}}},
        "transaction": "/join/slp_inv_x",
        "transaction_info": {"source": "url"},
    }
    with bind_log_fields(request_id="r-1"):
        scrubbed = EventScrubber((SECRET, "")).scrub(event, {})

    assert scrubbed == {
        "message": "refused •••",
        "transaction_info": {"source": "url"},
        "tags": {"request_id": "r-1"},
    }


def test_an_outage_is_reported_once_a_minute() -> None:
    error = OperationalError("no connection")
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "Not sent: %s", (error,), None)
    scrubber = EventScrubber(())

    assert scrubber.scrub({"message": "x"}, {"log_record": record}) is not None
    assert scrubber.scrub({"message": "x"}, {"log_record": record}) is None


@pytest.mark.parametrize(
    ("crumb", "kept"),
    [
        ({"type": "log", "message": "x", "data": {"request": 1}}, {"type": "log", "message": "x"}),
        ({"type": "http", "data": {"url": "https://example.com/?token=1"}}, None),
        ({"type": "subprocess", "message": "git clone"}, None),
        ({"category": "query", "message": "SELECT 1"}, None),
    ],
)
def test_only_lines_of_the_log_are_breadcrumbs(crumb: dict[str, Any], kept: dict[str, Any] | None) -> None:
    assert filter_breadcrumb(crumb, {}) == kept
