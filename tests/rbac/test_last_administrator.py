"""The last account administrator: no operation, page or form takes the role away."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import (
    add_group_members,
    assign_role,
    create_invitation,
    remove_assignment,
    remove_group_member,
    set_user_active,
    update_user_group,
)
from rbac.operations.invitations import accept_invitation
from rbac.policy import Forbidden, NotVisible
from tests.fixtures.interleaving import act_after
from tests.fixtures.people import make_person
from tests.fixtures.threads import run_concurrently, split
from tests.rbac.people import grant

pytestmark = pytest.mark.django_db
REASON = "Assign it to another active user without an expiry first"


def get_role() -> Role:
    return Role.objects.get(identifier="account_admin", scope=None)


@pytest.fixture
def manager(account: Scope) -> User:
    """Somebody with all permissions by a custom role, who is no Account Admin."""
    role = Role.objects.create(scope=account, identifier="all", name="All")
    role.set_permissions(get_role().permissions.values_list("permission", flat=True))
    person = make_person("manager")
    RoleAssignment.objects.create(user=person, role=role, scope=account)
    return person


@pytest.fixture
def crew(account: Scope) -> UserGroup:
    """A group with the role Account Admin, and one member."""
    group = UserGroup.objects.create(scope=account, identifier="crew", name="Crew")
    group.users.add(make_person("member"))
    RoleAssignment.objects.create(group=group, role=get_role(), scope=account)
    return group


def test_the_api_keeps_the_last_account_admin(admin: User, call: Callable[[User], APIClient]) -> None:
    assignment = admin.assignments.get()
    response = call(admin).delete(f"/api/v1/role-assignments/{assignment.pk}")
    assert response.status_code == 409
    assert REASON in response.json()["detail"]
    assert RoleAssignment.objects.filter(pk=assignment.pk).exists()

    grant(make_person("second"), "account_admin")
    assert call(admin).delete(f"/api/v1/role-assignments/{assignment.pk}").status_code == 204


def test_page_and_admin_site_say_why_the_last_account_admin_stays(
    admin: User, browse: Callable[[User], Client]
) -> None:
    assignment, browser = admin.assignments.get(), browse(admin)
    response = browser.post(reverse("remove-role-assignment", args=[assignment.pk]))
    assert response.status_code == 409
    assert REASON in response.content.decode()
    address = reverse("admin:rbac_roleassignment_delete", args=[assignment.pk])
    assert REASON in browser.post(address, {"post": "yes"}, follow=True).content.decode()
    assert RoleAssignment.objects.filter(pk=assignment.pk).exists()


@pytest.mark.parametrize("other", ["disabled", "limited", "below", "service account", "expired", "expiring"])
def test_only_an_active_person_with_the_whole_role_counts_as_another(
    admin: User, account: Scope, project: Scope, other: str
) -> None:
    person, now = make_person("other"), timezone.now()
    expires_at = {"expired": now, "expiring": now + timedelta(days=1)}.get(other)
    assignment = grant(person, "account_admin", project if other == "below" else None, expires_at=expires_at)
    if other == "limited":
        limit = account.resource_groups.create(identifier="web", name="Web")
        RoleAssignment.objects.filter(pk=assignment.pk).update(resource_group=limit)
    kind = User.Kind.SERVICE_ACCOUNT if other == "service account" else User.Kind.PERSON
    User.objects.filter(pk=person.pk).update(is_active=other != "disabled", kind=kind)
    with pytest.raises(ValidationError, match=REASON):
        remove_assignment(actor=None, assignment=admin.assignments.get())


def test_the_last_account_admin_is_not_disabled(
    admin: User, manager: User, browse: Callable[[User], Client]
) -> None:
    response = browse(manager).post(reverse("disable-user", args=[admin.pk]))
    assert response.status_code == 409
    assert REASON in response.content.decode()
    User.objects.filter(pk=manager.pk).update(is_staff=True)
    form = {"username": "admin", "is_staff": "on"}
    page = browse(manager).post(reverse("admin:rbac_user_change", args=[admin.pk]), form)
    assert REASON in page.content.decode()
    assert User.objects.get(pk=admin.pk).is_active

    grant(make_person("second"), "account_admin")
    set_user_active(actor=manager, person=admin, is_active=False)
    assert not User.objects.get(pk=admin.pk).is_active


def test_who_was_disabled_just_before_disables_nobody(admin: User) -> None:
    second = make_person("second")
    grant(second, "account_admin")

    def disable_admin() -> None:
        User.objects.filter(pk=admin.pk).update(is_active=False)

    locks_account = 'AS "pk" FROM "rbac_scope"'
    with act_after(locks_account, disable_admin), pytest.raises(Forbidden):
        set_user_active(actor=admin, person=second, is_active=False)
    assert User.objects.get(pk=second.pk).is_active


@pytest.mark.django_db(transaction=True)
def test_of_two_administrators_who_take_access_from_each_other_at_once_one_stays(admin: User) -> None:
    second = make_person("second")
    assignment = grant(second, "account_admin")
    won, failures = split(
        run_concurrently(
            lambda: set_user_active(actor=second, person=admin, is_active=False),
            lambda: remove_assignment(actor=admin, assignment=assignment),
        )
    )
    assert len(won) == 1, failures
    assert isinstance(failures[0], Forbidden | NotVisible), failures


def test_the_last_member_of_the_last_group_of_administrators_stays(manager: User, crew: UserGroup) -> None:
    member = crew.users.get()
    with pytest.raises(ValidationError, match=REASON):
        remove_group_member(actor=manager, group=crew, user=member)
    with pytest.raises(ValidationError, match=REASON):
        update_user_group(actor=manager, group=crew, name="Crew", external_name="", users=[])
    with pytest.raises(ValidationError, match=REASON):
        set_user_active(actor=manager, person=member, is_active=False)
    with pytest.raises(ValidationError, match=REASON):
        remove_assignment(actor=manager, assignment=crew.assignments.get())
    assert list(crew.users.all()) == [member]

    add_group_members(actor=manager, group=crew, users=[make_person("second")])
    remove_group_member(actor=manager, group=crew, user=member)


def test_a_group_of_the_last_administrators_is_not_linked_to_the_provider(
    manager: User, crew: UserGroup, settings: Settings
) -> None:
    settings.OIDC_ISSUER = "https://login.example"
    with pytest.raises(ValidationError, match=REASON):
        update_user_group(actor=manager, group=crew, name="Crew", external_name="crew")
    assert crew.users.exists()


def test_where_nobody_is_account_admin_nothing_is_kept(manager: User, viewer: User) -> None:
    set_user_active(actor=manager, person=viewer, is_active=False)
    remove_assignment(actor=manager, assignment=viewer.assignments.get())
    assert not viewer.assignments.exists()


def test_an_expiring_role_of_the_last_administrator_is_prolonged_by_an_invitation(
    admin: User, manager: User, account: Scope
) -> None:
    expires_at = timezone.now() + timedelta(days=1)
    RoleAssignment.objects.filter(user=admin).update(expires_at=expires_at)
    invitation, _ = create_invitation(
        actor=manager, email="admin@example.com", scope=account, role=get_role(), days=1
    )
    accept_invitation(person=admin, invitation=invitation)
    assert admin.assignments.get().expires_at is None
    assign_role(actor=admin, scope=account, role=get_role(), user=manager)
