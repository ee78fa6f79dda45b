"""Checks of roles take the same number of statements however many roles there are."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rbac.models import Role, RoleAssignment, Scope, User
from rbac.operations import delete_role, set_user_active
from rbac.operations.roles import create_role

pytestmark = pytest.mark.django_db


@pytest.fixture
def scopes(project: Scope) -> list[Scope]:
    return [
        Scope.objects.create(kind="PROJECT", parent=project.parent, identifier=f"p{number}", name="P")
        for number in range(20)
    ]


def make_holder(name: str, role: Role, scopes: list[Scope]) -> User:
    holder = User.objects.create_user(name)
    RoleAssignment.objects.bulk_create(RoleAssignment(user=holder, role=role, scope=at) for at in scopes)
    return holder


def test_disabling_somebody_with_many_roles(admin: User, scopes: list[Scope]) -> None:
    def count(person: User) -> int:
        with CaptureQueriesContext(connection) as queries:
            set_user_active(actor=admin, person=person, is_active=False)
        return len(queries)

    viewer = Role.objects.get(identifier="viewer", scope=None)
    few, many = make_holder("few", viewer, scopes[:1]), make_holder("many", viewer, scopes)
    assert count(many) == count(few)


def test_deleting_a_role_with_many_assignments_reads_permissions_once(
    admin: User, scopes: list[Scope]
) -> None:
    def count(identifier: str, assigned: list[Scope]) -> int:
        role = create_role(
            actor=None, scope=scopes[0].parent, identifier=identifier, name="Ops", permissions=[]
        )
        make_holder(identifier, role, assigned)
        with CaptureQueriesContext(connection) as queries:
            delete_role(actor=admin, role=role, although_used=True)
        return sum(query["sql"].startswith("SELECT") for query in queries)

    assert count("many", scopes) == count("few", scopes[:1])
