"""Request ids, refusals, the current scope, the API's description."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from rest_framework.test import APIClient

from rbac.audit import NO_REQUEST, current_request
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden, NotVisible
from tests.rbac.people import grant, project, user
from web.forms.pages import get_visible, require_sign_in
from web.http.middleware import RequestIdMiddleware
from web.http.problems import BadInput, Conflict, convert_exception

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


def test_every_answer_names_its_request(client: Client):
    assert len(client.get("/sign-in/")["X-Request-Id"]) == 32
    response = client.get("/sign-in/", headers={"X-Request-Id": "abc-12345"})
    assert response["X-Request-Id"] == "abc-12345"
    forged = client.get("/sign-in/", headers={"X-Request-Id": "a b\tc" * 20})
    assert len(forged["X-Request-Id"]) == 32


def test_a_proxy_that_forwards_no_address_harms_no_column():
    seen: list[str] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(current_request.get().address)
        return HttpResponse(request.META["REMOTE_ADDR"])

    request = RequestFactory().get("/", REMOTE_ADDR="x" * 200)
    answer = RequestIdMiddleware(view)(request)
    columns = (AuditEntry._meta.get_field("address").max_length, len(answer.content), len(seen[0]))
    assert columns == (64, 64, 64)


def test_the_mark_of_a_request_ends_with_it():
    contexts = []

    def view(request: HttpRequest) -> HttpResponse:
        contexts.append(current_request.get(NO_REQUEST))
        return HttpResponse()

    RequestIdMiddleware(view)(RequestFactory().get("/x", REMOTE_ADDR="10.0.0.9"))
    assert contexts[0].address == "10.0.0.9"
    assert contexts[0].request_id
    assert current_request.get(NO_REQUEST) == NO_REQUEST


@pytest.mark.parametrize(
    "address", ["/sign-in/?next=%00", "/api/v1/orgs?identifier=%00", "/deployments/%00/"]
)
def test_nul_in_an_address_is_a_bad_request(client: Client, address: str):
    assert client.get(address).status_code == 400


def test_unknown_addresses_are_pages_for_people_and_documents_for_programs(client: Client):
    response = client.get("/nowhere/")
    assert (response.status_code, response["Content-Type"]) == (404, "text/html; charset=utf-8")
    document = client.get("/api/v1/nowhere")
    assert (document.status_code, document["Content-Type"]) == (404, "application/problem+json")
    assert document.json()["code"] == "not_found"
    accepting = client.get("/nowhere/", headers={"Accept": "application/json"})
    assert accepting["Content-Type"] == "application/problem+json"


def test_problems_say_what_is_wrong_and_hide_what_is_foreign():
    bad = convert_exception(BadInput("No.", errors=[{"path": "a", "message": "b", "line": 3}]))
    assert bad is not None
    assert (bad["status"], bad["errors"]) == (400, [{"path": "a", "message": "b", "line": 3}])
    assert (convert_exception(Conflict("Busy.")) or {})["status"] == 409
    assert (convert_exception(Forbidden("core_pipeline_execute")) or {})["status"] == 403
    missing = convert_exception(NotVisible("the secret name"))
    assert missing is not None
    assert "secret" not in str(missing)
    assert convert_exception(RuntimeError("a bug")) is None


def test_a_mistake_of_ours_shows_no_trace(client: Client, monkeypatch: pytest.MonkeyPatch):
    def raise_error(self: object, request: HttpRequest) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("accounts.api.users.CurrentUserView.get", raise_error)
    client.raise_request_exception = False
    client.force_login(user("anna"))
    response = client.get("/api/v1/me")
    assert response.status_code == 500
    assert response["Content-Type"] == "application/problem+json"
    assert b"hunter2" not in response.content


@require_sign_in
def shown_scope(request: HttpRequest) -> HttpResponse:
    """A page that shows which scope it is about."""
    return HttpResponse(str(request.current_scope))  # type: ignore[attr-defined]


def scope_of(client: Client, query: str = "") -> str:
    client.get(f"/sign-in/{query}")
    return str(client.session.get("scope"))


def test_the_first_visible_project_is_current_until_another_is_asked_for(browse: Browse):
    first, second = project("default/first"), project("default/second")
    project("foreign/secret")
    person = user("anna", "viewer", second)
    grant(person, "viewer", first)
    client = browse(person)

    assert scope_of(client) == "account/default/first"
    assert scope_of(client, "?scope=account/default/second") == "account/default/second"
    assert scope_of(client) == "account/default/second"
    assert scope_of(client, "?scope=account/foreign/secret") == "account/default/second"
    assert scope_of(client, "?scope=account/default") == "account/default"


def test_a_scope_that_was_taken_away_is_not_remembered(browse: Browse):
    first, second = project("default/first"), project("default/second")
    person = user("anna", "viewer", first)
    assignment = grant(person, "viewer", second)
    client = browse(person)
    assert scope_of(client, "?scope=account/default/second") == "account/default/second"
    assignment.delete()
    assert scope_of(client) == "account/default/first"


def test_someone_without_a_role_has_no_scope(browse: Browse):
    assert scope_of(browse(user("nobody"))) == "None"


def test_a_page_sends_strangers_to_sign_in_and_back():
    request = RequestFactory().get("/pipelines/?a=1")
    request.user = User()  # type: ignore[assignment]
    anonymous = APIClient().get("/deployments/?status=open")
    assert anonymous.status_code == 302
    assert anonymous["Location"] == "/sign-in/?next=/deployments/%3Fstatus%3Dopen"


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_fragment_for_strangers_leaves_the_page_where_it_is(client: Client, method: str):
    response = getattr(client, method)("/deployments/", headers={"HX-Request": "true"})
    assert (response.status_code, response.content) == (401, b"")
    assert "HX-Redirect" not in response


def test_an_action_without_a_session_leads_back_to_its_page_and_is_told_as_not_performed(
    client: Client,
) -> None:
    address = "/deployments/00000000-0000-0000-0000-000000000000/abort/"
    page = {"Referer": "http://testserver/deployments/?status=open"}
    response = client.post(address, headers=page)
    assert response["Location"] == "/sign-in/?unsent=1&next=%2Fdeployments%2F%3Fstatus%3Dopen"
    assert "the last action was not performed" in client.get(response["Location"]).content.decode()
    for referer in ("https://evil.example/deployments/", "http://[", ""):
        elsewhere = client.post(address, headers={"Referer": referer})
        assert elsewhere["Location"] == "/sign-in/?unsent=1"


@pytest.mark.parametrize(
    "lookup", [{"pk": "x"}, {"pk": 2**70}, {"pk": 0}, {"path": "account/foreign/secret"}]
)
def test_get_visible_never_says_why_there_is_nothing(lookup: dict[str, object]):
    project("foreign/secret")
    request = RequestFactory().get("/")
    request.user = user("anna", "viewer", project())
    with pytest.raises(NotVisible):
        get_visible(request, "core_project_view", Scope.objects.all(), **lookup)


def test_the_description_of_the_api_names_every_route(client: Client):
    response = client.get("/api/schema/", headers={"Accept": "application/vnd.oai.openapi+json"})
    described = response.json()
    assert response.status_code == 200
    assert {"apiKey", "bearer"} <= set(described["components"]["securitySchemes"])
    for address in ("/api/v1/me", "/api/v1/executions/{id}/log", "/api/v1/pipelines/{id}/executions"):
        assert address in described["paths"]


def test_the_description_of_the_api_is_valid_and_complete(tmp_path: Path):
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yaml"))
