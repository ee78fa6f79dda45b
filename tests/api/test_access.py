"""Who one is, what one may do, organizations, projects, roles, assignments, keys, audit."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from rbac.models import AuditEntry, Role, Scope, User
from rbac.policy import can

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]


def test_anonymous_callers_get_401_and_are_told_how_to_sign_in():
    response = APIClient().get("/api/v1/me")
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="slipway"'
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_authenticated"
    assert response.json()["request_id"] == response["X-Request-Id"]


@pytest.mark.parametrize(
    "headers",
    [
        {"HTTP_X_API_KEY": "slp_pat_wrong"},
        {"HTTP_AUTHORIZATION": "Bearer slp_pat_wrong"},
        {"HTTP_AUTHORIZATION": "Bearer"},
        {"HTTP_X_API_KEY": "\xff\xfe"},
    ],
)
def test_a_wrong_key_gets_401(headers: dict[str, str]):
    assert APIClient().get("/api/v1/me", **headers).status_code == 401


def test_a_key_works_in_both_headers(viewer: User, call: Call):
    client = call(viewer)
    assert client.get("/api/v1/me").json()["username"] == "viewer"
    token = client._credentials["HTTP_X_API_KEY"]
    bearer = APIClient().get("/api/v1/me", HTTP_AUTHORIZATION=f"Bearer {token}")
    assert bearer.json()["username"] == "viewer"


def test_a_session_works_and_its_writes_need_a_csrf_token(viewer: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(viewer)
    assert client.get("/api/v1/me").status_code == 200
    refused = client.post("/api/v1/api-keys", {"name": "x"}, content_type="application/json")
    assert refused.status_code == 403


def test_the_permissions_of_a_project_are_those_of_the_roles(viewer: User, call: Call):
    answer = call(viewer).get("/api/v1/me/permissions?org=default&project=demo").json()
    assert answer["scope"] == "account/default/demo"
    assert "core_pipeline_view" in answer["permissions"]
    assert "core_pipeline_execute" not in answer["permissions"]


def test_a_foreign_scope_is_404_for_permissions(viewer: User, other_project: Scope, call: Call):
    response = call(viewer).get("/api/v1/me/permissions?org=other&project=elsewhere")
    assert response.status_code == 404


def test_access_check_answers_each_question(deployer: User, other_project: Scope, call: Call):
    asked = [
        {"permission": "core_pipeline_execute", "org": "default", "project": "demo"},
        {"permission": "core_pipeline_edit", "org": "default", "project": "demo"},
        {"permission": "core_pipeline_view", "org": "other", "project": "elsewhere"},
        {"permission": "core_pipeline_view", "org": "no", "project": "where"},
        {"permission": "core_pipeline_view"},
    ]
    results = call(deployer).post("/api/v1/access-check", {"permissions": asked}, format="json").json()
    assert [one["permitted"] for one in results["results"]] == [True, False, False, False, False]


def test_access_check_refuses_unknown_permissions(deployer: User, call: Call):
    response = call(deployer).post(
        "/api/v1/access-check", {"permissions": [{"permission": "core_moon_land"}]}, format="json"
    )
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "permissions.0.permission"


def test_a_member_sees_the_own_organization_and_project_only(viewer: User, other_project: Scope, call: Call):
    client = call(viewer)
    assert [one["identifier"] for one in client.get("/api/v1/orgs").json()["results"]] == ["default"]
    assert client.get("/api/v1/orgs/default").status_code == 200
    assert client.get("/api/v1/orgs/other").status_code == 404
    projects = client.get("/api/v1/orgs/default/projects").json()
    assert [one["identifier"] for one in projects["results"]] == ["demo"]
    assert projects["next"] is None
    assert client.get("/api/v1/orgs/other/projects").json()["results"] == []
    assert client.get("/api/v1/orgs/other/projects/elsewhere").status_code == 404


def test_an_admin_makes_and_renames_organizations_and_projects(admin: User, call: Call):
    client = call(admin)
    assert client.post("/api/v1/orgs", {"identifier": "lab", "name": "Lab"}, format="json").status_code == 201
    made = client.post("/api/v1/orgs/lab/projects", {"identifier": "one", "name": "One"}, format="json")
    assert made.json()["scope"] == "account/lab/one"
    renamed = client.patch("/api/v1/orgs/lab/projects/one", {"name": "First"}, format="json")
    assert renamed.json()["name"] == "First"
    again = client.post("/api/v1/orgs", {"identifier": "lab", "name": "Lab"}, format="json")
    assert again.status_code == 400
    bad = client.post("/api/v1/orgs", {"identifier": "1 lab", "name": "Lab"}, format="json")
    assert bad.json()["errors"][0]["path"] == "identifier"


def test_a_viewer_makes_nothing(viewer: User, call: Call):
    client = call(viewer)
    body = {"identifier": "lab", "name": "Lab"}
    assert client.post("/api/v1/orgs/default/projects", body, format="json").status_code in (403, 404)
    assert client.patch("/api/v1/orgs/default/projects/demo", {"name": "x"}, format="json").status_code == 403


def test_roles_are_listed_made_changed_and_deleted(admin: User, project: Scope, call: Call):
    client = call(admin)
    builtin = {one["identifier"] for one in client.get("/api/v1/roles").json()["results"]}
    assert {"account_admin", "pipeline_executor", "viewer"} <= builtin
    body = {
        "identifier": "runner",
        "name": "Runner",
        "permissions": ["core_pipeline_execute"],
        "org": "default",
        "project": "demo",
    }
    made = client.post("/api/v1/roles", body, format="json").json()
    assert made["permissions"] == ["core_delegate_view", "core_pipeline_execute"]
    address = f"/api/v1/roles/{made['id']}"
    change = {"name": "Runner", "permissions": ["core_pipeline_view"]}
    assert client.put(address, change, format="json").json()["permissions"] == [
        "core_delegate_view",
        "core_pipeline_view",
    ]
    assert client.put(address, {"name": "x", "permissions": ["core_x"]}, format="json").status_code == 400
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    viewer_role = Role.objects.get(identifier="viewer")
    assert client.delete(f"/api/v1/roles/{viewer_role.pk}").status_code == 400


def test_an_assignment_is_made_counts_and_is_removed(admin: User, project: Scope, call: Call):
    person, client = User.objects.create_user("new"), call(admin)
    body = {"role": "viewer", "user": "new", "org": "default", "project": "demo"}
    made = client.post("/api/v1/role-assignments", body, format="json")
    assert made.status_code == 201
    assert can(person, "core_pipeline_view", project)
    assert client.post("/api/v1/role-assignments", body, format="json").status_code == 400
    assert client.delete(f"/api/v1/role-assignments/{made.json()['id']}").status_code == 204
    assert not can(person, "core_pipeline_view", project)


@pytest.mark.parametrize(
    "body",
    [
        {"role": "viewer"},
        {"role": "nothing", "user": "admin"},
        {"role": "viewer", "user": "nobody"},
        {"role": "viewer", "group": "nobody"},
        {"role": "viewer", "user": "admin", "expires_at": "soon"},
    ],
)
def test_bad_assignments_are_refused(admin: User, project: Scope, call: Call, body: dict[str, str]):
    body = {**body, "org": "default", "project": "demo"}
    assert call(admin).post("/api/v1/role-assignments", body, format="json").status_code == 400


def test_a_deployer_cannot_hand_out_roles(deployer: User, call: Call):
    body = {"role": "viewer", "user": "deployer", "org": "default", "project": "demo"}
    assert call(deployer).post("/api/v1/role-assignments", body, format="json").status_code in (403, 404)


def test_keys_are_ones_own_and_their_token_is_shown_once(viewer: User, deployer: User, call: Call):
    client = call(viewer)
    made = client.post("/api/v1/api-keys", {"name": "CI"}, format="json").json()
    assert APIClient().get("/api/v1/me", HTTP_X_API_KEY=made["token"]).status_code == 200
    listed = client.get("/api/v1/api-keys").content.decode()
    assert made["prefix"] in listed
    assert made["token"] not in listed
    assert call(deployer).get(f"/api/v1/api-keys/{made['id']}").status_code == 404
    assert call(deployer).delete(f"/api/v1/api-keys/{made['id']}").status_code == 404
    assert client.delete(f"/api/v1/api-keys/{made['id']}").status_code == 204
    assert APIClient().get("/api/v1/me", HTTP_X_API_KEY=made["token"]).status_code == 401


def test_a_key_can_expire(viewer: User, call: Call):
    past = (timezone.now() - timedelta(minutes=1)).isoformat()
    made = call(viewer).post("/api/v1/api-keys", {"name": "CI", "expires_at": past}, format="json").json()
    assert APIClient().get("/api/v1/me", HTTP_X_API_KEY=made["token"]).status_code == 401


def test_what_a_key_does_is_audited_with_the_key_and_the_request(admin: User, call: Call):
    client = call(admin)
    body = {"identifier": "lab", "name": "Lab"}
    response = client.post("/api/v1/orgs", body, format="json", HTTP_X_REQUEST_ID="request-12345")
    assert response["X-Request-Id"] == "request-12345"
    entry = AuditEntry.objects.get(action="scope.create")
    assert (entry.source, entry.request_id, entry.address) == ("api", "request-12345", "127.0.0.1")
    assert client._credentials["HTTP_X_API_KEY"].startswith(entry.api_key_prefix)
    assert entry.api_key_prefix


def test_the_audit_trail_is_for_those_who_may_read_it(admin: User, viewer: User, call: Call):
    call(admin).post("/api/v1/orgs", {"identifier": "lab", "name": "Lab"}, format="json")
    assert "scope.create" in call(admin).get("/api/v1/audit").content.decode()
    assert call(viewer).get("/api/v1/audit").json()["results"] == []
