"""The page of effective access says of each permission which role gives it, or what is missing."""

import pytest
from django.test import Client
from django.urls import reverse

from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
from tests.rbac.people import grant, organization, project, user

pytestmark = pytest.mark.django_db


def read_access_page(reader: User, status: int = 200, **params: str) -> str:
    client = Client()
    client.force_login(reader)
    response = client.get(reverse("effective-access"), params)
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def find_row(page: str, permission: str) -> str:
    """Return the cells of one permission."""
    return page.split(f">{permission}</code>", 1)[1].split("</tr>", 1)[0]


@pytest.fixture
def demo(account: Scope) -> Scope:
    return project()


def test_everybody_sees_what_they_may_do_themselves(demo: Scope):
    page = read_access_page(user("vera", "viewer", demo))

    assert "Viewer at account/default/demo." in find_row(page, "core_pipeline_view")
    permission_row = find_row(page, "core_pipeline_execute")
    assert "Not granted" in permission_row
    assert "No role grants core_pipeline_execute in this scope." in permission_row
    assert "Granted by Account Admin, Organization Admin, Project Admin, Pipeline Executor." in permission_row


def test_one_thing_shows_its_own_permissions_only(demo: Scope):
    Pipeline.objects.create(scope=demo, identifier="web", name="Web", yaml="")
    page = read_access_page(user("vera", "viewer", demo), kind="pipeline", identifier="web", scope=demo.path)

    assert "core_pipeline_abort" in page
    assert ">core_secret_view</code>" not in page


def test_who_may_see_users_asks_about_others_and_their_groups(demo: Scope):
    reader, other = user("reader", "viewer", demo), user("other")
    group = UserGroup.objects.create(scope=demo, identifier="ops", name="Ops people")
    group.users.add(other)
    executor = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(scope=demo, role=executor, group=group)

    permission_row = find_row(read_access_page(reader, who="other", scope=demo.path), "core_pipeline_execute")
    assert "Pipeline Executor at account/default/demo, as a member of Ops people." in permission_row
    page = read_access_page(reader, who="group:account/default/demo/ops", scope=demo.path)
    assert "Pipeline Executor at account/default/demo." in find_row(page, "core_pipeline_execute")


def test_who_may_not_see_users_asks_about_themselves_only(demo: Scope):
    executor, other = user("executor", "pipeline_executor", demo), user("other", "viewer", demo)

    page = read_access_page(executor, 400, who="other")
    assert "You need the permission core_user_view there" in page
    assert ">core_pipeline_execute</code>" not in page
    assert other.username not in read_access_page(executor)


def test_several_roles_are_counted_and_the_nearest_is_named(demo: Scope):
    person = user("person", "viewer", organization("default"))
    grant(person, "project_admin", demo)

    permission_row = find_row(read_access_page(person), "core_pipeline_view")
    assert "Project Admin at account/default/demo. <span" in permission_row
    assert "1 more role also grants it." in permission_row


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scope": "account/else/where"}, "This scope does not exist, or you cannot view it."),
        ({"kind": "pipeline"}, "Enter both the type and the identifier"),
        ({"identifier": "web"}, "Enter both the type and the identifier"),
        ({"kind": "pipeline", "identifier": "no"}, "Not found in this scope"),
        ({"kind": "moon", "identifier": "no"}, "Select a valid choice"),
        ({"who": "nobody"}, "There is no user or group with this name"),
        ({"who": "group:"}, "There is no user or group with this name"),
    ],
)
def test_what_cannot_be_found_is_said_beside_its_field(demo: Scope, params: dict[str, str], message: str):
    assert message in read_access_page(user("vera", "viewer", demo), 400, **params)


def test_who_belongs_nowhere_is_told_so(account: Scope):
    assert "You have no role in any scope yet" in read_access_page(user("nobody"))
