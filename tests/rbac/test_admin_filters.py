"""Filters of lists in the admin site offer only what the reader may view."""

from collections.abc import Callable

import pytest
from django.test import Client

from rbac.models import Role, Scope, User
from tests.rbac.people import grant, organization

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
ASSIGNMENTS = "/admin/rbac/roleassignment/"


@pytest.fixture
def org_admin(project: Scope) -> User:
    """Staff that may manage one organization only."""
    person = User.objects.create_user("org_admin", is_staff=True)
    grant(person, "organization_admin", organization("default"))
    return person


@pytest.fixture
def own_role(project: Scope) -> Role:
    return Role.objects.create(scope=project.parent, identifier="release", name="Release manager")


def test_assignments_are_filtered_by_roles_that_the_reader_may_view(
    org_admin: User, own_role: Role, other_project: Scope, browse: Browse
) -> None:
    Role.objects.create(scope=other_project.parent, identifier="merger", name="Takeover of Umbrella")
    page = browse(org_admin).get(ASSIGNMENTS).content.decode()
    assert "Release manager" in page
    assert "Viewer" in page
    assert "Umbrella" not in page


def test_a_chosen_role_narrows_the_list(org_admin: User, own_role: Role, browse: Browse) -> None:
    browser = browse(org_admin)
    builtin = org_admin.assignments.get().role
    for role, count in {builtin: 1, own_role: 0}.items():
        answer = browser.get(ASSIGNMENTS, {"role__id__exact": role.pk})
        assert answer.status_code == 200
        assert answer.context["cl"].result_count == count
