"""Who one is, what one may do, organizations, projects, roles, assignments, keys, audit."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from rbac.models import ApiKeyLimits, AuditEntry, Role, RoleAssignment, Scope, User
from rbac.operations.api_keys import get_api_key_by_token
from rbac.permissions import SHARED_VIEW_PERMISSIONS
from rbac.policy import can

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]


def build_assignment(person: User, role: str, scope: Scope) -> dict[str, Any]:
    """Return the body that assigns a role to `person` at `scope`."""
    return {"principal": {"type": "user", "id": person.pk}, "role": role, "scope": scope.path}


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


def test_a_member_sees_the_own_organization_and_project_only(viewer: User, other_project: Scope, call: Call):
    client = call(viewer)
    assert [org["identifier"] for org in client.get("/api/v1/orgs").json()["results"]] == ["default"]
    assert client.get("/api/v1/orgs/default").status_code == 200
    assert client.get("/api/v1/orgs/other").status_code == 404
    projects = client.get("/api/v1/orgs/default/projects").json()
    assert [row["identifier"] for row in projects["results"]] == ["demo"]
    assert projects["next"] is None
    assert client.get("/api/v1/orgs/other/projects").json()["results"] == []
    assert client.get("/api/v1/orgs/other/projects/elsewhere").status_code == 404


def test_an_admin_makes_and_renames_organizations_and_projects(admin: User, call: Call):
    client = call(admin)
    assert client.post("/api/v1/orgs", {"identifier": "lab", "name": "Lab"}, format="json").status_code == 201
    response = client.post("/api/v1/orgs/lab/projects", {"identifier": "one", "name": "One"}, format="json")
    assert response.json()["scope"] == "account/lab/one"
    renamed = client.patch("/api/v1/orgs/lab/projects/one", {"name": "First"}, format="json")
    assert renamed.json()["name"] == "First"
    conflict = client.post("/api/v1/orgs", {"identifier": "lab", "name": "Lab"}, format="json")
    assert conflict.status_code == 400
    bad = client.post("/api/v1/orgs", {"identifier": "1 lab", "name": "Lab"}, format="json")
    assert bad.json()["errors"][0]["path"] == "identifier"


def test_a_viewer_makes_nothing(viewer: User, call: Call):
    client = call(viewer)
    body = {"identifier": "lab", "name": "Lab"}
    assert client.post("/api/v1/orgs/default/projects", body, format="json").status_code in (403, 404)
    assert client.patch("/api/v1/orgs/default/projects/demo", {"name": "x"}, format="json").status_code == 403


def test_roles_are_listed_made_changed_and_deleted(admin: User, project: Scope, call: Call):
    client = call(admin)
    builtin = {role["identifier"] for role in client.get("/api/v1/roles").json()["results"]}
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
    change = {"name": "Runner", "permissions": ["core_pipeline_view", "core_delegate_view"]}
    assert client.put(address, change, format="json").json()["permissions"] == [
        "core_delegate_view",
        "core_pipeline_view",
    ]
    assert client.put(address, {"name": "x", "permissions": ["core_x"]}, format="json").status_code == 400
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    viewer_role = Role.objects.get(identifier="viewer")
    assert client.delete(f"/api/v1/roles/{viewer_role.pk}").status_code == 409


def test_an_assignment_is_made_counts_and_is_removed(admin: User, project: Scope, call: Call):
    person, client = User.objects.create_user("new"), call(admin)
    body = build_assignment(person, "viewer", project)
    response = client.post("/api/v1/role-assignments", body, format="json")
    assert response.status_code == 201
    assert can(person, "core_pipeline_view", project)
    assert client.post("/api/v1/role-assignments", body, format="json").status_code == 400
    assert client.delete(f"/api/v1/role-assignments/{response.json()['id']}").status_code == 204
    assert not can(person, "core_pipeline_view", project)


@pytest.mark.parametrize(
    "body",
    [
        {"principal": None},
        {"principal": {"type": "robot", "id": 1}},
        {"principal": {"type": "user", "id": 10**9}},
        {"principal": {"type": "group", "id": 10**9}},
        {"principal": {"type": "service_account", "id": 10**9}},
        {"role": "nothing"},
        {"resource_group": "nothing"},
        {"expires_at": "soon"},
        {"user": "admin"},
    ],
)
def test_bad_assignments_are_refused(admin: User, project: Scope, call: Call, body: dict[str, Any]):
    body = build_assignment(admin, "viewer", project) | body
    assert call(admin).post("/api/v1/role-assignments", body, format="json").status_code == 400


def test_a_deployer_cannot_hand_out_roles(deployer: User, project: Scope, call: Call):
    body = build_assignment(deployer, "viewer", project)
    assert call(deployer).post("/api/v1/role-assignments", body, format="json").status_code in (403, 404)


def test_keys_are_ones_own_and_their_token_is_shown_once(viewer: User, deployer: User, call: Call):
    client = call(viewer)
    api_key = client.post("/api/v1/api-keys", {"name": "CI"}, format="json").json()
    assert APIClient().get("/api/v1/me", HTTP_X_API_KEY=api_key["key"]).status_code == 200
    page_text = client.get("/api/v1/api-keys").content.decode()
    assert api_key["prefix"] in page_text
    assert api_key["key"] not in page_text
    assert call(deployer).get(f"/api/v1/api-keys/{api_key['id']}").status_code == 404
    assert call(deployer).delete(f"/api/v1/api-keys/{api_key['id']}").status_code == 404
    assert client.delete(f"/api/v1/api-keys/{api_key['id']}").status_code == 204
    assert APIClient().get("/api/v1/me", HTTP_X_API_KEY=api_key["key"]).status_code == 401


def test_a_key_can_expire(viewer: User, call: Call):
    past = (timezone.now() - timedelta(minutes=1)).isoformat()
    api_key = call(viewer).post("/api/v1/api-keys", {"name": "CI", "expires_at": past}, format="json").json()
    assert APIClient().get("/api/v1/me", HTTP_X_API_KEY=api_key["key"]).status_code == 401


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


@pytest.fixture
def program(admin: User, project: Scope, call: Call) -> dict[str, Any]:
    """A service account of the project, which may look at everything there."""
    client = call(admin)
    made = client.post(
        "/api/v1/service-accounts", {"name": "CI runner", "scope": project.path}, format="json"
    )
    assert made.status_code == 201
    body = build_assignment(admin, "viewer", project)
    body["principal"] = {"type": "service_account", "id": made.json()["id"]}
    response = client.post("/api/v1/role-assignments", body, format="json")
    assert response.status_code == 201
    assert response.json()["principal"] == body["principal"] | {"name": "CI runner"}
    return dict(made.json())


def test_a_service_account_acts_by_its_key_with_its_own_roles(
    admin: User, program: dict[str, Any], call: Call
):
    body = {"service_account": program["id"], "name": "main"}
    api_key = call(admin).post("/api/v1/api-keys", body, format="json").json()
    client = APIClient()
    client.credentials(HTTP_X_API_KEY=api_key["key"])

    assert client.get("/api/v1/me").json()["username"] == program["username"] == "CI_runner@demo"
    assert client.get("/api/v1/me/permissions?org=default&project=demo").status_code == 200
    assert client.get("/api/v1/me/permissions").json()["permissions"] == sorted(SHARED_VIEW_PERMISSIONS)
    api_keys = call(admin).get(f"/api/v1/api-keys?service_account={program['id']}").json()["results"]
    assert [(key["id"], key["service_account"]) for key in api_keys] == [(api_key["id"], program["id"])]
    assert api_key["key"] not in str(api_keys)


def test_a_rotated_key_opens_with_both_tokens_until_the_grace_ends(viewer: User, call: Call):
    client = call(viewer)
    api_key = client.post("/api/v1/api-keys", {"name": "CI"}, format="json").json()
    address = f"/api/v1/api-keys/{api_key['id']}/rotate"
    with time_machine.travel(timezone.now(), tick=False) as clock:
        rotated = client.post(address, {"grace_seconds": 60}, format="json").json()
        assert [get_key_status(api_key["key"]), get_key_status(rotated["key"])] == [200, 200]
        clock.shift(61)
        assert [get_key_status(api_key["key"]), get_key_status(rotated["key"])] == [401, 200]
    second_rotation = client.post(address, {}, format="json").json()
    assert [get_key_status(rotated["key"]), get_key_status(second_rotation["key"])] == [401, 200]
    assert client.post(address, {"grace_seconds": 10**9}, format="json").status_code == 400
    entry = AuditEntry.objects.filter(action="apikey.rotate").first()
    assert entry is not None
    assert not {api_key["key"], rotated["key"], second_rotation["key"]} & set(str(entry.after).split("'"))


def test_a_deleted_service_account_reaches_nothing_and_keeps_its_name(
    admin: User, program: dict[str, Any], call: Call
):
    client, address = call(admin), f"/api/v1/service-accounts/{program['id']}"
    body = {"service_account": program["id"], "name": "main"}
    token = client.post("/api/v1/api-keys", body, format="json").json()["key"]
    assert client.patch(address, {"description": "Builds"}, format="json").json()["description"] == "Builds"
    assert get_key_status(token) == 200
    assert client.delete(address).status_code == 204
    assert get_key_status(token) == 401
    assert client.get(address).status_code == 404
    user = User.objects.get(username=program["username"])
    assert (user.is_active, user.assignments.count()) == (False, 0)
    entry = AuditEntry.objects.get(action="serviceaccount.delete")
    assert entry.before["roles"] == ["viewer at account/default/demo"]


def test_nobody_makes_a_key_of_a_service_account_that_may_more_than_they(
    admin: User, program: dict[str, Any], project: Scope, call: Call
):
    key_maker = Role.objects.create(scope=project, identifier="key_maker", name="Key maker")
    key_maker.set_permissions(["core_serviceaccount_view", "core_serviceaccount_manageapikey"])
    person = User.objects.create_user("sly")
    RoleAssignment.objects.create(user=person, role=key_maker, scope=project)
    body = {"service_account": program["id"], "name": "mine"}
    refused = call(person).post("/api/v1/api-keys", body, format="json")
    assert refused.status_code == 403
    assert refused.json()["errors"][0]["message"].startswith("core_")

    RoleAssignment.objects.create(user=person, role=Role.objects.get(identifier="viewer"), scope=project)
    assert call(person).post("/api/v1/api-keys", body, format="json").status_code == 201


def test_a_narrowed_key_says_so_and_makes_no_keys(admin: User, project: Scope, call: Call):
    body = {"name": "narrow", "scope": project.path, "permissions": ["core_pipeline_view"]}
    key_document = call(admin).post("/api/v1/api-keys", body, format="json").json()
    assert (key_document["scope"], key_document["permissions"]) == (project.path, ["core_pipeline_view"])
    api_key = get_api_key_by_token(key_document["key"])
    assert api_key is not None
    assert api_key.limits == ApiKeyLimits(project, frozenset({"core_pipeline_view"}))
    client = APIClient()
    client.credentials(HTTP_X_API_KEY=key_document["key"])
    refused = client.post("/api/v1/api-keys", {"name": "wide"}, format="json")
    assert refused.status_code == 400
    assert "limited permissions" in refused.json()["detail"]
    assert client.post(f"/api/v1/api-keys/{key_document['id']}/rotate", {}, format="json").status_code == 400


def test_delegate_view_cannot_be_taken_from_a_role(admin: User, project: Scope, call: Call):
    body = {"identifier": "runner", "name": "Runner", "permissions": [], "scope": project.path}
    client = call(admin)
    role = client.post("/api/v1/roles", body, format="json").json()
    change = {"name": "Runner", "permissions": ["core_pipeline_view"]}
    refused = client.put(f"/api/v1/roles/{role['id']}", change, format="json")
    assert refused.status_code == 400
    assert "core_delegate_view cannot be removed" in refused.json()["errors"][0]["message"]


def get_key_status(token: str) -> int:
    return APIClient().get("/api/v1/me", HTTP_X_API_KEY=token).status_code


def test_a_key_that_ends_makes_none_that_outlives_it(viewer: User, call: Call):
    soon = (timezone.now() + timedelta(hours=1)).isoformat()
    api_key = call(viewer).post("/api/v1/api-keys", {"name": "CI", "expires_at": soon}, format="json").json()
    client = APIClient()
    client.credentials(HTTP_X_API_KEY=api_key["key"])
    assert client.get("/api/v1/me/permissions?org=default&project=demo").json()["permissions"]
    assert client.post("/api/v1/api-keys", {"name": "more"}, format="json").status_code == 400


def test_a_program_rotates_its_key_and_makes_no_other(admin: User, program: dict[str, Any], call: Call):
    body = {"service_account": program["id"], "name": "main"}
    api_key = call(admin).post("/api/v1/api-keys", body, format="json").json()
    client = APIClient()
    client.credentials(HTTP_X_API_KEY=api_key["key"])
    assert client.post("/api/v1/api-keys", {"name": "spare"}, format="json").status_code == 403
    rotated = client.post(f"/api/v1/api-keys/{api_key['id']}/rotate", {}, format="json")
    assert rotated.status_code == 200
    assert [get_key_status(api_key["key"]), get_key_status(rotated.json()["key"])] == [401, 200]
