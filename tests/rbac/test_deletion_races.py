"""Roles, groups and resource groups that are deleted while somebody else starts to use them."""

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from django.http import Http404

from rbac.models import AuditEntry, Invitation, ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import (
    assign_role,
    create_invitation,
    delete_resource_group,
    delete_role,
    delete_user_group,
)
from rbac.policy import NotVisible
from tests.fixtures.people import make_person
from tests.fixtures.threads import run_concurrently, split

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 5


def run_race(use: Callable[[], object], delete: Callable[[], object]) -> bool:
    """Do both at once, and return whether the use won; the other one is refused in a way that people see."""
    won, failures = split(run_concurrently(use, delete))
    assert len(won) == 1, failures
    (failure,) = failures
    if isinstance(failure, ValidationError):
        # The problem document of this code has status 409.
        assert failure.code == "state"
        return True
    assert isinstance(failure, Http404)
    return False


@pytest.mark.parametrize("although_used", [False, True])
def test_a_role_is_either_assigned_or_deleted(project: Scope, admin: User, although_used: bool) -> None:
    for number in range(ROUNDS):
        role = Role.objects.create(scope=project, identifier=f"role{number}", name="Role")
        person = make_person(f"person{number}")

        def assign(role: Role = role, person: User = person) -> object:
            return assign_role(actor=admin, scope=project, role=role, user=person)

        def delete(role: Role = role) -> object:
            return delete_role(actor=admin, role=role, although_used=although_used)

        if although_used:
            # The deletion wins, and takes the assignment along if that was first.
            _, failures = split(run_concurrently(assign, delete))
            assert all(isinstance(failure, Http404) for failure in failures)
            assert not Role.objects.filter(identifier=f"role{number}").exists()
        else:
            is_assigned = run_race(assign, delete)
            assert RoleAssignment.objects.filter(user=person).exists() == is_assigned


def test_a_role_is_either_offered_in_an_invitation_or_deleted(project: Scope, admin: User) -> None:
    for number in range(ROUNDS):
        role = Role.objects.create(scope=project, identifier=f"role{number}", name="Role")

        def invite(role: Role = role, email: str = f"a{number}@example.com") -> object:
            return create_invitation(actor=admin, email=email, scope=project, role=role, days=1)

        def delete(role: Role = role) -> object:
            return delete_role(actor=admin, role=role)

        is_invited = run_race(invite, delete)
        assert Invitation.objects.filter(email=f"a{number}@example.com").exists() == is_invited


def test_a_resource_group_either_limits_a_role_or_is_deleted(project: Scope, admin: User) -> None:
    viewer = Role.objects.get(identifier="viewer", scope=None)
    for number in range(ROUNDS):
        group = ResourceGroup.objects.create(scope=project, identifier=f"group{number}", name="Group")
        person = make_person(f"person{number}")

        def assign(group: ResourceGroup = group, person: User = person) -> object:
            return assign_role(actor=admin, scope=project, role=viewer, user=person, resource_group=group)

        def delete(group: ResourceGroup = group) -> object:
            return delete_resource_group(actor=admin, group=group)

        is_limited = run_race(assign, delete)
        assert RoleAssignment.objects.filter(user=person).exists() == is_limited


def test_a_group_either_gets_a_role_or_is_deleted(project: Scope, admin: User) -> None:
    viewer = Role.objects.get(identifier="viewer", scope=None)
    for number in range(ROUNDS):
        group = UserGroup.objects.create(scope=project, identifier=f"group{number}", name="Group")
        pk, also_read = group.pk, UserGroup.objects.get(pk=group.pk)

        def assign(group: UserGroup = also_read) -> object:
            return assign_role(actor=admin, scope=project, role=viewer, group=group)

        def delete(group: UserGroup = group) -> object:
            return delete_user_group(actor=admin, group=group)

        won, failures = split(run_concurrently(assign, delete))
        assert len(won) == 1, failures
        assert isinstance(failures[0], ValidationError | Http404), failures
        is_kept = UserGroup.objects.filter(pk=pk).exists()
        assert RoleAssignment.objects.filter(group=pk).exists() == is_kept
        assert AuditEntry.objects.filter(action="usergroup.delete", thing_id=str(pk)).exists() != is_kept


def test_a_group_that_was_just_deleted_gets_no_role(project: Scope, admin: User) -> None:
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    also_read = UserGroup.objects.get(pk=group.pk)
    delete_user_group(actor=admin, group=group)
    viewer = Role.objects.get(identifier="viewer", scope=None)
    with pytest.raises(NotVisible):
        assign_role(actor=admin, scope=project, role=viewer, group=also_read)
