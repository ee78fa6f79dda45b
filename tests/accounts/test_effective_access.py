"""The page of effective access says of each permission which role gives it, or what is missing."""

import pytest
from django.test import Client
from django.urls import reverse

from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
from tests.rbac.people import grant, organization, project, user

pytestmark = pytest.mark.django_db


def shown(reader: User, status: int = 200, **asked: str) -> str:
    client = Client()
    client.force_login(reader)
    response = client.get(reverse("effective-access"), asked)
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def row(page: str, permission: str) -> str:
    """The cells of one permission."""
    return page.split(f">{permission}</code>", 1)[1].split("</tr>", 1)[0]


@pytest.fixture
def demo(account: Scope) -> Scope:
    return project()


def test_everybody_sees_what_they_may_do_themselves(demo: Scope):
    page = shown(user("vera", "viewer", demo))

    assert "Viewer at account/default/demo." in row(page, "core_pipeline_view")
    missing = row(page, "core_pipeline_execute")
    assert "Not granted" in missing
    assert "No role grants core_pipeline_execute in this scope." in missing
    assert "Granted by Account Admin, Organization Admin, Project Admin, Pipeline Executor." in missing


def test_one_thing_shows_its_own_permissions_only(demo: Scope):
    Pipeline.objects.create(scope=demo, identifier="web", name="Web", yaml="")
    page = shown(user("vera", "viewer", demo), kind="pipeline", identifier="web", scope=demo.path)

    assert "core_pipeline_abort" in page
    assert "core_secret_view" not in page


def test_who_may_see_users_asks_about_others_and_their_groups(demo: Scope):
    reader, other = user("reader", "viewer", demo), user("other")
    group = UserGroup.objects.create(scope=demo, identifier="ops", name="Ops people")
    group.users.add(other)
    executor = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(scope=demo, role=executor, group=group)

    found = row(shown(reader, who="other", scope=demo.path), "core_pipeline_execute")
    assert "Pipeline Executor at account/default/demo, as a member of Ops people." in found
    page = shown(reader, who="group:account/default/demo/ops", scope=demo.path)
    assert "Pipeline Executor at account/default/demo." in row(page, "core_pipeline_execute")


def test_who_may_not_see_users_asks_about_themselves_only(demo: Scope):
    executor, other = user("executor", "pipeline_executor", demo), user("other", "viewer", demo)

    page = shown(executor, 400, who="other")
    assert "You need the permission core_user_view there" in page
    assert "core_pipeline_execute" not in page
    assert other.username not in shown(executor)


def test_several_roles_are_counted_and_the_nearest_is_named(demo: Scope):
    person = user("person", "viewer", organization("default"))
    grant(person, "project_admin", demo)

    found = row(shown(person), "core_pipeline_view")
    assert "Project Admin at account/default/demo. <span" in found
    assert "1 more role also grants it." in found


@pytest.mark.parametrize(
    ("asked", "message"),
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
def test_what_cannot_be_found_is_said_beside_its_field(demo: Scope, asked: dict[str, str], message: str):
    assert message in shown(user("vera", "viewer", demo), 400, **asked)


def test_who_belongs_nowhere_is_told_so(account: Scope):
    assert "You have no role in any scope yet" in shown(user("nobody"))
