"""No answer, whatever was asked and however wrong it was, and no log or report of it, holds a secret."""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, RequestFactory
from django.views.debug import get_exception_reporter_class
from rest_framework.test import APIClient

from connectors.models import Secret
from connectors.operations import create_secret
from deployments.models import AwsCall
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.row_copies import complete
from tests.routes import addresses
from tests.secrecy.planted_secrets import Planted, Search
from tests.secret_watch.marker import planted
from tests.secret_watch.watch import expected
from web.http.exception_reports import RedactedExceptionReporter

pytestmark = pytest.mark.django_db

VALUE = planted("/wJalrXUtnFEMI+K7MDENG \"bPx'RfiCY")
HERE = {"org": "default", "project": "demo"}
LINES = planted(
    "-----BEGIN PLANTED KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n-----END-----"
)


@pytest.fixture
def search() -> Search:
    return Search([Planted("the value", VALUE), Planted("the lines", LINES)])


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    sample_world = make_world(project, admin, admin)
    sample_world.secret.value = VALUE
    sample_world.secret.save()
    Secret.objects.create(
        scope=project, identifier="pem", name="PEM", kind="File", file_name="k", value=LINES
    )
    return sample_world


def test_no_page_or_route_shows_a_value(world: World, admin: User, search: Search) -> None:
    complete(world)
    environment = [{"name": "TOKEN", "value": VALUE}]
    for call in AwsCall.objects.all():
        call.parameters = json.dumps({"containerDefinitions": [{"environment": environment}]})
        call.save()
    reader = Client()
    reader.force_login(admin)
    for address in addresses(world):
        answer = reader.get(address.path)
        body = answer.getvalue()
        search.search_content(f"answer of {address.name}", body)
        search.search_content(f"headers of {address.name}", str(answer.headers))
    assert search.searched_bytes["answer"] > 100_000
    assert search.findings == []


def test_no_refusal_of_the_api_repeats_a_value(
    world: World,
    admin: User,
    call: Callable[[User], APIClient],
    search: Search,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = call(admin)
    right = {"identifier": "new", "name": "New", "value": VALUE} | HERE
    wrong: list[object] = [
        right | {"identifier": VALUE},
        right | {"identifier": "key"},
        right | {"name": f"\0{VALUE}"},
        right | {"value": [VALUE]},
        right | {"value": {"x": VALUE}},
        right | {"value": VALUE + "\0"},
        right | {"value": VALUE * 2000},
        right | {"unknown": VALUE},
        right | {VALUE: "unknown"},
        right | {"project": VALUE},
        [VALUE],
        VALUE,
    ]
    texts = [*map(json.dumps, wrong), f'{{"value": {VALUE}', f'{{"value": "{VALUE}', "{" * 99 + VALUE]
    # Names of fields and things are no secrets; somebody who enters one as such reads it again.
    repeated = (json.dumps(right | {VALUE: "unknown"}), json.dumps(right | {"project": VALUE}))
    for text in texts:
        for method, path in (
            ("post", "/api/v1/secrets"),
            ("patch", f"/api/v1/secrets/{world.secret.pk}"),
            ("post", "/api/v1/connectors"),
        ):
            with expected() if text in repeated else nullcontext():
                answer = getattr(client, method)(path, text, content_type="application/json")
            assert answer.status_code < 500
            if text not in repeated:
                search.search_content(f"answer to {method} {path} {text[:60]}", answer.content)
    search.search_content("log", caplog.text)
    search.search_database()
    assert search.findings == []


def test_no_form_gives_back_the_value_that_was_entered(
    world: World, admin: User, browse: Callable[[User], Client], search: Search
) -> None:
    browser = browse(admin)
    right = {"in_scope": "account/default/demo", "identifier": "new", "name": "New", "value": VALUE}
    for changes in (
        {"identifier": "not an identifier"},
        {"identifier": "key"},
        {"name": ""},
        {"in_scope": "account/nowhere"},
        {"value": VALUE, "file": SimpleUploadedFile("key.pem", LINES.encode())},
    ):
        answer = browser.post("/secrets/new/", right | changes)
        assert answer.status_code == 400, changes
        search.search_content(f"page after {changes.keys()}", answer.content)
    rotation = {"value": VALUE, "file": SimpleUploadedFile("key.pem", LINES.encode())}
    answer = browser.post(f"/secrets/{world.secret.pk}/rotate/", rotation)
    search.search_content("page of a rotation", answer.content)
    search.search_database()
    assert search.findings == []


def _broken(**_values: object) -> None:
    raise RuntimeError("a mistake of ours")


def _by_program(program: APIClient, _browser: Client, values: dict[str, str]) -> tuple[int, bytes]:
    text = json.dumps(values | HERE)
    answer = program.post("/api/v1/secrets", text, content_type="application/json")
    return answer.status_code, answer.content


def _by_browser(_program: APIClient, browser: Client, values: dict[str, str]) -> tuple[int, bytes]:
    answer = browser.post("/secrets/new/", values | {"in_scope": "account/default/demo"})
    return answer.status_code, answer.content


@pytest.mark.parametrize("door", ["api", "page"])
def test_an_unexpected_error_tells_nobody_a_value(
    door: str,
    world: World,
    admin: User,
    call: Callable[[User], APIClient],
    search: Search,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("connectors.operations.secrets.record_audit_entry", _broken)
    right = {"identifier": "new", "name": "New", "value": VALUE}
    program, browser = call(admin), Client(raise_request_exception=False)
    program.raise_request_exception = False
    browser.force_login(admin)
    status, content = {"api": _by_program, "page": _by_browser}[door](program, browser, right)
    assert status == 500
    search.search_content("answer", content)
    assert "a mistake of ours" in caplog.text
    search.search_content("log", caplog.text)
    formatter = logging.Formatter()
    search.search_content("records", "\n".join(map(formatter.format, caplog.records)))
    assert search.findings == []


@pytest.mark.parametrize("debug", [False, True])
def test_a_report_of_an_error_holds_no_value(
    debug: bool, world: World, admin: User, search: Search, monkeypatch: pytest.MonkeyPatch, settings: object
) -> None:
    settings.DEBUG = debug  # type: ignore[attr-defined]
    monkeypatch.setattr("connectors.operations.secrets.record_audit_entry", _broken)
    request = RequestFactory().post(f"/secrets/new/?value={VALUE}", {"value": VALUE}, HTTP_X_API_KEY=VALUE)
    request.COOKIES["sessionid"] = VALUE
    try:
        create_secret(actor=admin, scope=world.scope, identifier="new", name="New", value=VALUE)
    except RuntimeError:
        reporter = RedactedExceptionReporter(request, *sys.exc_info())
        assert get_exception_reporter_class(request) is RedactedExceptionReporter
        report = reporter.get_traceback_html() + reporter.get_traceback_text()
    assert "a mistake of ours" in report
    assert "create_secret" in report
    search.search_content("report", report)
    assert search.findings == []
