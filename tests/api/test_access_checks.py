"""One can ask whether somebody may do something, and is told by which assignment or what is missing."""

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from pipelines.models import InputSet, Pipeline
from rbac.models import Role, RoleAssignment, Scope, ServiceAccount, User, UserGroup
from tests.api.sample_project import World
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]
ADDRESS, HOLDERS = "/api/v1/access-check", "/api/v1/access-holders"


def check_access(
    client: APIClient, permission: str, resource: Any, status: int = 200, about: Any = None
) -> Any:
    body = {"permission": permission, "resource": resource}
    if about is not None:
        body["principal"] = about
    response = client.post(ADDRESS, body, format="json")
    assert response.status_code == status, response.content
    return response.json()


@pytest.fixture
def pipeline(project: Scope) -> Pipeline:
    return Pipeline.objects.create(scope=project, identifier="web", name="Web", yaml="")


def test_a_yes_names_the_assignment_that_it_comes_from(deployer: User, pipeline: Pipeline, call: Call):
    resource = {"type": "pipeline", "id": pipeline.pk}
    result = check_access(call(deployer), "core_pipeline_execute", resource)

    assignment = RoleAssignment.objects.get(user=deployer)
    assert result["permitted"] is True
    assert result["principal"] == {"type": "user", "id": deployer.pk, "name": deployer.username}
    assert result["resource"] == {"type": "pipeline", "id": str(pipeline.pk)}
    assert result["assignment"]["id"] == assignment.pk
    assert result["assignment"]["role"] == "pipeline_executor"
    assert result["reason"] == "Pipeline Executor at account/default/demo."


def test_a_thing_can_be_named_by_its_identifier_and_scope(deployer: User, pipeline: Pipeline, call: Call):
    resource = {"type": "pipeline", "identifier": "web", "scope": pipeline.scope.path}

    assert check_access(call(deployer), "core_pipeline_execute", resource)["permitted"] is True
    result = check_access(call(deployer), "core_pipeline_delete", resource)
    assert (result["permitted"], result["assignment"]) == (False, None)
    assert result["reason"] == "No role grants core_pipeline_delete in this scope."


def test_an_input_set_is_named_by_its_identifier_in_the_scope_of_its_pipeline(
    deployer: User, pipeline: Pipeline, call: Call
):
    InputSet.objects.create(pipeline=pipeline, identifier="nightly", name="Nightly")
    resource = {"type": "inputset", "identifier": "nightly", "scope": pipeline.scope.path}

    assert check_access(call(deployer), "core_inputset_view", resource)["permitted"] is True


def test_a_scope_is_asked_about_by_its_path(viewer: User, project: Scope, other_project: Scope, call: Call):
    client = call(viewer)

    assert check_access(client, "core_pipeline_view", {"scope": project.path})["permitted"] is True
    assert check_access(client, "core_pipeline_edit", {"scope": project.path})["permitted"] is False
    assert check_access(client, "core_pipeline_view", {"scope": "account"})["permitted"] is False


def test_what_is_foreign_is_told_as_what_never_was(viewer: User, other_project: Scope, call: Call):
    hidden = Pipeline.objects.create(scope=other_project, identifier="web", name="Web", yaml="")
    foreign = check_access(call(viewer), "core_pipeline_view", {"type": "pipeline", "id": hidden.pk})
    missing = check_access(call(viewer), "core_pipeline_view", {"type": "pipeline", "id": 999999})
    path = check_access(call(viewer), "core_pipeline_view", {"scope": other_project.path})

    assert foreign["permitted"] is False
    assert foreign | {"resource": None} == missing | {"resource": None} == path | {"resource": None}


def test_about_others_one_asks_as_who_may_see_users_there(
    admin: User, viewer: User, deployer: User, pipeline: Pipeline, call: Call
):
    resource = {"type": "pipeline", "id": pipeline.pk}
    about = {"type": "user", "id": deployer.pk}

    assert check_access(call(admin), "core_pipeline_execute", resource, about=about)["permitted"] is True
    assert check_access(call(viewer), "core_pipeline_execute", resource, about=about)["permitted"] is True
    about_viewer = {"type": "user", "id": viewer.pk}
    refused = check_access(call(deployer), "core_pipeline_view", resource, status=403, about=about_viewer)
    assert "core_user_view" in str(refused)


def test_groups_and_service_accounts_are_asked_about_by_their_own_id(
    admin: User, deployer: User, project: Scope, pipeline: Pipeline, call: Call
):
    resource, client = {"scope": project.path}, call(admin)
    group = UserGroup.objects.create(scope=project, identifier="ops", name="Ops")
    group.users.add(deployer)
    role = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(scope=project, role=role, group=group)
    user = User.objects.create(username="ci", kind=User.Kind.SERVICE_ACCOUNT)
    program = ServiceAccount.objects.create(scope=project, identifier="ci", name="CI", user=user)

    about_group = {"type": "group", "id": group.pk}
    result = check_access(client, "core_audit_view", resource, about=about_group)
    assert (result["permitted"], result["principal"]["name"]) == (False, "Ops")
    assert (
        check_access(client, "core_role_view", resource, about=about_group)["reason"]
        == f"Viewer at {project.path}."
    )
    about_member = {"type": "user", "id": deployer.pk}
    result = check_access(client, "core_role_view", resource, about=about_member)
    assert result["reason"] == f"Viewer at {project.path}, as a member of Ops."
    assert result["assignment"]["principal"] == {"type": "group", "id": group.pk, "name": "Ops"}
    about_program = {"type": "service_account", "id": program.pk}
    assert check_access(client, "core_role_view", resource, about=about_program)["permitted"] is False


def test_a_role_that_ended_is_said_to_have_ended(admin: User, viewer: User, project: Scope, call: Call):
    RoleAssignment.objects.filter(user=viewer).update(expires_at=timezone.now() - timedelta(days=1))
    about = {"type": "user", "id": viewer.pk}

    result = check_access(call(admin), "core_pipeline_view", {"scope": project.path}, about=about)
    assert result["permitted"] is False
    assert result["reason"].startswith("Viewer at account/default/demo expired at ")


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ({}, "Enter a scope alone"),
        ({"type": "pipeline"}, "Enter a scope alone"),
        ({"id": "1"}, "Enter a scope alone"),
        ({"type": "moon", "id": "1"}, "unknown value; use one of "),
        ({"type": "execution", "identifier": "x", "scope": "account"}, "Use the id of the execution"),
        ("account", "Expected a dictionary"),
    ],
)
def test_what_makes_no_sense_is_said_to_make_none(viewer: User, resource: Any, message: str, call: Call):
    result = check_access(call(viewer), "core_pipeline_view", resource, status=400)
    assert message in str(result)


def test_an_unknown_permission_is_refused(viewer: User, project: Scope, call: Call):
    result = check_access(call(viewer), "core_moon_land", {"scope": project.path}, status=400)
    assert result["errors"][0]["path"] == "permission"


def test_a_text_that_is_no_id_means_nothing(world: World, viewer: User, call: Call):
    for kind, key in product(("pipeline", "execution"), ("../etc", "9" * 40, "-1")):
        result = check_access(call(viewer), "core_pipeline_view", {"type": kind, "id": key})
        assert result["permitted"] is False


def read_answer(client: APIClient, address: str, status: int = 200, **query: str) -> Any:
    response = client.get(address, query)
    assert response.status_code == status, response.content
    return response.json()


def test_a_question_about_deploying_is_answered_with_every_assignment_that_it_needs(
    admin: User, deployer: User, viewer: User, project: Scope, call: Call
):
    client, query = call(admin), {"action": "deploy", "scope": project.path}
    granted = read_answer(client, ADDRESS, who="deployer", **query)
    assert (granted["permitted"], granted["question"]) == (True, f"deploy in project {project.name}")
    assert [row["role"] for row in granted["assignments"]] == ["pipeline_executor"]
    assert granted["missing"] == []

    refused = read_answer(client, ADDRESS, who="viewer", **query)
    assert (refused["permitted"], refused["assignments"]) == (False, [])
    assert [row["permission"] for row in refused["missing"]] == [
        "core_pipeline_execute",
        "core_environment_access",
        "core_service_access",
    ]
    assert "Pipeline Executor" in refused["missing"][0]["granting_roles"]


def test_who_can_do_something_is_listed_with_the_assignments_page_by_page(
    admin: User, deployer: User, viewer: User, project: Scope, pipeline: Pipeline, call: Call
):
    group = UserGroup.objects.create(scope=project, identifier="ops", name="Ops")
    group.users.add(viewer)
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(group=group, role=role, scope=project)
    query = {
        "action": "core_pipeline_execute",
        "scope": project.path,
        "kind": "pipeline",
        "identifier": "web",
    }
    client = call(admin)
    result = read_answer(client, HOLDERS, **query)
    assert [row["principal"]["name"] for row in result["results"]] == ["admin", "deployer", "viewer"]
    assert result["results"][2]["assignments"][0]["principal"] == {
        "type": "group",
        "id": group.pk,
        "name": "Ops",
    }
    page = read_answer(client, HOLDERS, page_size="2", **query)
    assert [row["principal"]["name"] for row in client.get(page["next"]).json()["results"]] == ["viewer"]


def test_the_lists_of_page_and_api_take_one_query_and_agree(
    admin: User, deployer: User, project: Scope, call: Call, browse: Callable[[User], Any]
):
    query = {"action": "deploy", "scope": project.path}
    page = browse(admin).get("/access/who/", query).content.decode()
    for row in read_answer(call(admin), HOLDERS, **query)["results"]:
        assert f">{row['principal']['name']}</a>" in page


def test_who_cannot_view_users_learns_nothing_about_others(
    admin: User, deployer: User, project: Scope, call: Call
):
    client, query = call(deployer), {"action": "deploy", "scope": project.path}
    assert read_answer(client, HOLDERS, **query)["results"] == []
    assert read_answer(client, ADDRESS, **query)["permitted"] is True
    body = {"permission": "core_pipeline_view", "resource": {"scope": project.path}}
    body |= {"principal": {"type": "user", "id": admin.pk}}
    by_post = client.post(ADDRESS, body, format="json")
    refused = read_answer(client, ADDRESS, 403, who="admin", **query)
    assert refused | {"request_id": ""} == by_post.json() | {"request_id": ""}
    assert refused["errors"] == [{"path": "", "message": "core_user_view"}]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"action": "fly"}, "action"),
        ({"action": "deploy", "scope": ""}, "scope"),
        ({"action": "deploy", "kind": "pipeline"}, "identifier"),
        ({"action": "deploy", "kind": "pipeline", "identifier": "missing"}, "identifier"),
        ({"action": "core_secret_view", "kind": "pipeline", "identifier": "web"}, "action"),
    ],
)
def test_a_wrong_question_is_refused_with_its_place(
    admin: User, pipeline: Pipeline, call: Call, query: dict[str, str], path: str
):
    query = {"scope": pipeline.scope.path, **query}
    for address in (ADDRESS, HOLDERS):
        assert read_answer(call(admin), address, 400, **query)["errors"][0]["path"] == path


def test_the_number_of_queries_does_not_grow_with_the_holders(
    admin: User, project: Scope, call: Call, django_assert_max_num_queries: Any
):
    client, query = call(admin), {"action": "deploy", "scope": project.path}
    with CaptureQueriesContext(connection) as few:
        read_answer(client, HOLDERS, **query)
    for number in range(5):
        make_person(f"person{number}", "pipeline_executor", project)
    with django_assert_max_num_queries(len(few)):
        assert len(read_answer(client, HOLDERS, **query)["results"]) > 5
