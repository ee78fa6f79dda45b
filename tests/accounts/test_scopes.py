"""Organizations and projects through the API: making, naming, putting away and bringing back."""

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from rest_framework.test import APIClient

from deployments.models import Execution
from guards.limits import PROJECTS
from rbac.models import AuditEntry, Scope, User
from rbac.operations import archive_scope, create_project, restore_scope
from tests.api.sample_project import make_world
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]
SHOP = {"identifier": "shop", "name": "Shop", "org": "default"}


def test_a_project_is_made_with_its_organization_in_the_body(admin: User, project: Scope, call: Call):
    response = call(admin).post("/api/v1/projects", SHOP, format="json")
    assert response.status_code == 201
    assert response.json()["scope"] == "account/default/shop"
    assert response.json()["org"] == "default"
    assert AuditEntry.objects.filter(action="scope.create", scope__path="account/default/shop").exists()


def test_what_is_not_known_or_taken_is_refused_by_its_name(admin: User, project: Scope, call: Call):
    api = call(admin)
    unknown_field = api.post("/api/v1/projects", SHOP | {"nmae": "x"}, format="json")
    assert (unknown_field.status_code, unknown_field.json()["errors"][0]["path"]) == (400, "nmae")
    missing_org = api.post("/api/v1/projects", {"identifier": "shop", "name": "Shop"}, format="json")
    assert (missing_org.status_code, missing_org.json()["errors"][0]["path"]) == (400, "org")
    invalid_identifier = api.post("/api/v1/projects", SHOP | {"identifier": "1 shop"}, format="json")
    assert (invalid_identifier.status_code, invalid_identifier.json()["errors"][0]["path"]) == (
        400,
        "identifier",
    )
    duplicate = api.post("/api/v1/projects", SHOP | {"identifier": "demo"}, format="json")
    assert "already exists" in duplicate.json()["errors"][0]["message"]


def test_a_project_admin_makes_no_project_inside_a_project(project: Scope, call: Call):
    pia = make_person("pia", "project_admin", project)
    answer = call(pia).post("/api/v1/projects", SHOP | {"org": "default/demo"}, format="json")
    assert answer.status_code == 404
    with pytest.raises(ValidationError, match="account/default/demo is not an organization"):
        create_project(actor=pia, organization=project, identifier="shop", name="Shop")
    assert not Scope.objects.filter(parent=project).exists()


def test_all_projects_are_listed_and_narrowed(admin: User, project: Scope, other_project: Scope, call: Call):
    api = call(admin)
    assert {row["scope"] for row in api.get("/api/v1/projects").json()["results"]} >= {
        "account/default/demo",
        "account/other/elsewhere",
    }
    rows = api.get("/api/v1/projects?org=other").json()["results"]
    assert [row["identifier"] for row in rows] == ["elsewhere"]


def test_a_project_is_put_away_and_brought_back(admin: User, project: Scope, call: Call):
    api, address = call(admin), "/api/v1/orgs/default/projects/demo"
    archived_project = api.post(f"{address}/archive")
    assert archived_project.status_code == 200
    assert archived_project.json()["archived_at"]
    rows = api.get("/api/v1/projects?archived=true").json()["results"]
    assert [row["scope"] for row in rows] == ["account/default/demo"]
    duplicate = api.post("/api/v1/projects", SHOP | {"identifier": "demo"}, format="json")
    assert "Restore it" in duplicate.json()["errors"][0]["message"]

    restored_project = api.post(f"{address}/restore")
    assert (restored_project.status_code, restored_project.json()["archived_at"]) == (200, None)
    actions = AuditEntry.objects.filter(thing_id=str(project.pk)).order_by("pk")
    assert list(actions.values_list("action", flat=True)) == ["scope.archive", "scope.restore"]


def test_a_project_with_an_execution_under_way_cannot_be_put_away(admin: User, project: Scope, call: Call):
    make_world(project, admin, admin)
    for path in ("orgs/default", "orgs/default/projects/demo"):
        response = call(admin).post(f"/api/v1/{path}/archive")
        assert response.status_code == 409
        assert "1 execution is in progress in" in response.json()["detail"]
        assert "abort" in response.json()["detail"]

    Execution.objects.update(status="SUCCESS", due_at=None)
    assert call(admin).post("/api/v1/orgs/default/archive").status_code == 200


def test_who_may_only_change_a_project_can_neither_archive_nor_restore_it(project: Scope, call: Call):
    manager = make_person("manager", "project_admin", project)
    assert call(manager).post("/api/v1/orgs/default/projects/demo/archive").status_code == 403
    Scope.objects.filter(pk=project.pk).update(archived_at="2026-01-01T00:00:00Z")
    assert call(manager).post("/api/v1/orgs/default/projects/demo/restore").status_code == 404
    assert call(manager).get("/api/v1/projects?archived=true").json()["results"] == []


def test_the_account_cannot_be_archived_and_nothing_twice(admin: User, project: Scope):

    with pytest.raises(ValidationError, match="cannot be archived"):
        archive_scope(actor=admin, scope=Scope.objects.account())
    archive_scope(actor=None, scope=project)
    with pytest.raises(ValidationError, match="already archived"):
        archive_scope(actor=None, scope=project)
    restore_scope(actor=None, scope=project)
    with pytest.raises(ValidationError, match="not archived"):
        restore_scope(actor=None, scope=project)


def test_an_organization_has_only_so_many_projects(admin: User, project: Scope, call: Call):
    Scope.objects.bulk_create(
        Scope(kind="PROJECT", parent=project.parent, identifier=f"p{number}", name="P", path=f"p{number}")
        for number in range(PROJECTS - 1)
    )
    response = call(admin).post("/api/v1/projects", SHOP, format="json")
    assert response.status_code == 400
    assert "account/default already has 1,000 projects" in response.json()["detail"]
