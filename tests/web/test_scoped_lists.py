"""A list shows what lies at the chosen scope and below it, on either database, whatever names look alike."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from rbac.models import Scope, User
from tests.api.sample_project import CANARY, make_world
from tests.fixtures.people import make_project

pytestmark = pytest.mark.django_db

LISTS = (
    *("/deployments/", "/pipelines/", "/services/", "/environments/", "/connectors/", "/files/"),
    *("/instances/", "/events/", "/drift/", "/delegates/tasks/"),
)
Browse = Callable[[User], Client]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("chosen_scope", ["account/default/demo", "account/default", "account"])
def test_a_list_shows_what_hangs_at_a_scope_or_below_it(
    path: str, chosen_scope: str, project: Scope, admin: User, browse: Browse
):
    make_world(project, admin, admin)
    page = browse(admin).get(path, {"scope": chosen_scope}).content.decode()
    assert CANARY in page or "task.yaml" in page


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("looks_alike", ["DEFAULT", "default_too", "d_fault"])
def test_a_list_of_one_organization_shows_nothing_of_one_whose_name_looks_alike(
    path: str, looks_alike: str, project: Scope, admin: User, browse: Browse
):
    make_world(make_project(looks_alike, "demo"), admin, admin)
    page = browse(admin).get(path, {"scope": "account/default"}).content.decode()
    assert CANARY not in page
    assert "task.yaml" not in page


SHARED_LISTS = {"/services/": "services", "/environments/": "environments", "/connectors/": "connectors"}


@pytest.mark.parametrize("path", SHARED_LISTS)
def test_what_hangs_above_the_chosen_scope_is_there_too_and_says_so(
    path: str, project: Scope, viewer: User, admin: User, browse: Browse
):
    assert project.parent is not None
    make_world(project.parent, admin, admin)
    page = browse(viewer).get(path, {"scope": "account/default/demo"}).content.decode()
    assert CANARY in page
    assert 'title="Shared with all scopes in account/default">Organization</span>' in page
    above = browse(admin).get(path, {"scope": "account/default"}).content.decode()
    assert CANARY in above
    assert "Shared with all scopes" not in above


def test_what_runs_in_an_environment_above_the_chosen_scope_is_listed_too(
    project: Scope, viewer: User, admin: User, browse: Browse
):
    assert project.parent is not None
    make_world(project.parent, admin, admin)
    page = browse(viewer).get("/instances/", {"scope": "account/default/demo"}).content.decode()
    assert CANARY in page


@pytest.mark.parametrize("resource", SHARED_LISTS.values())
def test_the_api_lists_what_is_shared_with_a_project_where_it_is_asked_for(
    resource: str, project: Scope, viewer: User, admin: User, call: Callable[[User], APIClient]
):
    assert project.parent is not None
    make_world(project.parent, admin, admin)
    address = f"/api/v1/{resource}?org=default&project=demo"
    assert call(viewer).get(address).json()["results"] == []
    shared = call(viewer).get(f"{address}&shared=true").json()["results"]
    assert [row["scope"] for row in shared] == ["account/default"]
