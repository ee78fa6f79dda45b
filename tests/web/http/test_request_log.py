"""One line for each request, without what its URL contains."""

import logging

import pytest
from django.test import Client

from tests.fixtures.log_lines import LineCollector, collect_lines

pytestmark = pytest.mark.django_db
REQUEST_ID = "request-0123456789"


def get_lines(path: str, client: Client | None = None) -> LineCollector:
    with collect_lines("slipway.requests", "django.request") as collector:
        (client or Client(raise_request_exception=False)).get(path, headers={"X-Request-Id": REQUEST_ID})
    return collector


def test_a_request_is_one_line_with_its_id_route_status_and_duration() -> None:
    collector = get_lines("/join/slp_inv_0123456789/?next=/secret/")

    (line,) = collector.list_events("Request answered")
    assert (line["request_id"], line["method"]) == (REQUEST_ID, "GET")
    assert (line["route"], line["logger"]) == ("/join/<str:token>/", "slipway.requests")
    assert line["status_code"] in (200, 302, 404)
    assert line["duration_ms"] >= 0
    assert "slp_inv" not in str(collector.lines)
    assert "secret" not in str(collector.lines)


def test_a_path_without_a_route_is_not_logged() -> None:
    lines = get_lines("/joined/slp_inv_0123456789/").lines

    assert {line.get("route") for line in lines if line["event"] == "Request answered"} == {"no route"}
    assert "slp_inv" not in str(lines)


def test_an_error_is_logged_under_the_id_of_its_request_and_without_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("accounts.pages.invitations.get_invitation_by_token", fail)
    collector = get_lines("/join/slp_inv_0123456789/")

    error, answered = collector.lines
    assert error["event"] == "Internal Server Error: /join/<str:token>/"
    assert "a mistake of ours" in error["exception"]
    assert (answered["event"], answered["status_code"]) == ("Request answered", 500)
    assert error["request_id"] == answered["request_id"] == REQUEST_ID
    assert "slp_inv" not in str(collector.lines)


def test_a_failed_probe_has_no_line() -> None:
    with collect_lines("django.request", level=logging.WARNING) as collector:
        Client().get("/readyz")
    assert collector.lines == []
