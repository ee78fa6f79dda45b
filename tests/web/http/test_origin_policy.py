"""Requests that other sites cause, and what answers tell browsers."""

import json
import logging

import pytest
import yaml
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from guards.limits import BAD_KEYS_PER_ADDRESS, CSP_REPORT_BYTES, CSP_REPORTS_PER_ADDRESS

pytestmark = pytest.mark.django_db
ELSEWHERE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(autouse=True)
def _no_counts() -> None:
    cache.clear()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("address", ["/sign-in/", "/api/v1/orgs"])
@pytest.mark.parametrize("method", ["get", "post", "delete"])
def test_other_sites_can_ask_nothing(client: Client, site: str, address: str, method: str) -> None:
    answer = getattr(client, method)(address, headers={**ELSEWHERE, "Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert b"another site" in answer.content


def test_a_link_from_another_site_is_followed(client: Client) -> None:
    assert client.get("/sign-in/", headers=LINK).status_code == 200
    assert client.post("/sign-in/", headers=LINK).status_code == 403
    framed = {**LINK, "Sec-Fetch-Dest": "iframe"}
    assert client.get("/sign-in/", headers=framed).status_code == 403


def test_our_own_pages_and_programs_are_not_asked_where_they_come_from(client: Client) -> None:
    for site in ("same-origin", "none"):
        assert client.get("/sign-in/", headers={"Sec-Fetch-Site": site}).status_code == 200
    assert client.get("/sign-in/").status_code == 200
    keyed = {**ELSEWHERE, "x-api-key": "slp_unknown"}
    assert client.get("/api/v1/orgs", headers=keyed).status_code == 401


@pytest.mark.parametrize("address", ["/sign-in/", "/api/v1/orgs", "/nowhere/"])
def test_every_answer_says_what_a_browser_is_to_keep_to(client: Client, address: str) -> None:
    answer = client.get(address)
    policy = answer["Content-Security-Policy"]
    for directive in (
        "default-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "report-uri /csp-reports",
    ):
        assert directive in policy
    assert "unsafe" not in policy
    assert answer["Reporting-Endpoints"] == 'csp="/csp-reports"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "camera=()" in answer["Permissions-Policy"]
    assert any(word in answer["Cache-Control"] for word in ("no-store", "no-cache"))


def report(client: Client, body: object) -> int:
    text = body if isinstance(body, str) else json.dumps(body)
    return int(client.post("/csp-reports", text, content_type="application/csp-report").status_code)


def test_reports_of_both_generations_become_one_line_each(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "slipway.csp"):
        old = {"violated-directive": "script-src", "blocked-uri": "http://x/?q=secret\r\nforged", "x": 1}
        assert report(client, {"csp-report": old}) == 204
        new = {"effectiveDirective": "style-src-attr", "documentURL": "https://here/a?token=secret"}
        assert report(client, [{"type": "csp-violation", "body": new}, {"type": "other"}, 7]) == 204
    assert len(caplog.records) == 2
    assert "script-src" in caplog.text
    assert "style-src-attr" in caplog.text
    assert "secret" not in caplog.text
    assert "forged" not in caplog.text


def test_what_is_no_report_is_refused(client: Client) -> None:
    assert report(client, "{") == 400
    assert report(client, "x" * (CSP_REPORT_BYTES + 1)) == 413
    assert client.get("/csp-reports").status_code == 405
    assert report(client, "[]") == 204
    assert client.post("/csp-reports", {"a": "b"}).status_code == 415


def test_nobody_fills_the_log_with_reports(client: Client) -> None:
    statuses = [report(client, []) for _ in range(CSP_REPORTS_PER_ADDRESS + 1)]
    assert statuses == [204] * CSP_REPORTS_PER_ADDRESS + [429]


def test_a_packed_body_is_refused_before_it_is_unpacked(client: Client) -> None:
    answer = client.post(
        "/api/v1/orgs", b"\x1f\x8b", content_type="application/json", headers={"Content-Encoding": "gzip"}
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "packed")


def test_unknown_keys_are_counted_by_address() -> None:
    client = APIClient(headers={"x-api-key": "slp_pat_unknown"})
    cache.set("bad-key:127.0.0.1", BAD_KEYS_PER_ADDRESS - 1)
    assert client.get("/api/v1/me").status_code == 401
    refused = client.get("/api/v1/me")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert client.get("/api/v1/me", REMOTE_ADDR="10.0.0.9").status_code == 401


def test_the_description_is_made_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get("/api/schema/").content
    as_json = client.get("/api/schema/?format=json")
    monkeypatch.setattr("drf_spectacular.generators.SchemaGenerator.parse", None)
    monkeypatch.setattr("drf_spectacular.renderers.dump", None)
    assert client.get("/api/schema/").content == first
    assert yaml.safe_load(first) == as_json.json()
