"""Roles in archived scopes: who holds them stays manageable, and their removal waits for the scope."""

import re
from collections.abc import Callable

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from rbac.models import ResourceGroup, Role, RoleAssignment, Scope, ServiceAccount, User, UserGroup
from rbac.operations import (
    add_group_members,
    archive_scope,
    create_api_key,
    create_invitation,
    create_service_account,
    update_resource_group,
)
from rbac.policy import Forbidden
from tests.fixtures.people import make_person
from tests.rbac.people import grant

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture
def crew(organization: Scope, project: Scope) -> UserGroup:
    group = UserGroup.objects.create(scope=organization, identifier="crew", name="Crew")
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(group=group, role=role, scope=project)
    return group


@pytest.fixture
def program(organization: Scope, project: Scope) -> ServiceAccount:
    account = create_service_account(actor=None, scope=organization, identifier="ci", name="CI")
    grant(account.user, "pipeline_executor", project)
    return account


@pytest.mark.parametrize("archived", ["account/default", "account/default/demo"])
@pytest.mark.parametrize("action", ["disable-user", "enable-user", "reset-second-factor"])
def test_a_person_with_a_role_in_an_archived_scope_stays_manageable(
    admin: User, viewer: User, archived: str, action: str, browse: Browse
) -> None:
    Authenticator.objects.create(user=viewer, type=Authenticator.Type.TOTP, data={})
    User.objects.filter(pk=viewer.pk).update(is_active=action != "enable-user")
    archive_scope(actor=admin, scope=Scope.objects.get(path=archived))
    assert browse(admin).post(reverse(action, args=[viewer.pk])).status_code == 302
    assert User.objects.get(pk=viewer.pk).is_active == (action != "disable-user")


def test_groups_and_programs_with_a_role_in_an_archived_scope_stay_manageable(
    org_admin: User, viewer: User, crew: UserGroup, program: ServiceAccount, project: Scope
) -> None:
    limit = ResourceGroup.objects.create(scope=crew.scope, identifier="web", name="Web")
    RoleAssignment.objects.filter(group=crew).update(resource_group=limit)
    archive_scope(actor=org_admin, scope=project)
    add_group_members(actor=org_admin, group=crew, users=[viewer])
    create_api_key(actor=org_admin, user=program.user, name="deploy")
    entries = [("service", "")]
    update_resource_group(actor=org_admin, group=limit, name="Web", description="", entries=entries)
    assert crew.users.get() == viewer


@pytest.mark.parametrize("archived", ["account/default", "account/default/demo"])
def test_nobody_prepares_a_role_for_the_day_when_its_scope_is_restored(
    admin: User, project: Scope, other_project: Scope, archived: str
) -> None:
    manager = make_person("manager", "project_admin", other_project)
    group = UserGroup.objects.create(scope=other_project, identifier="mine", name="Mine")
    role = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(group=group, role=role, scope=project)
    archive_scope(actor=admin, scope=Scope.objects.get(path=archived))
    with pytest.raises(Forbidden):
        add_group_members(actor=manager, group=group, users=[manager])


def test_deletions_name_the_archived_scope_of_a_role(
    org_admin: User, crew: UserGroup, project: Scope, browse: Browse, call: Callable[[User], APIClient]
) -> None:
    role = Role.objects.create(scope=crew.scope, identifier="releaser", name="Releaser")
    limit = ResourceGroup.objects.create(scope=crew.scope, identifier="web", name="Web")
    RoleAssignment.objects.filter(group=crew).update(role=role, resource_group=limit)
    invited = Role.objects.create(scope=crew.scope, identifier="invited", name="Invited")
    create_invitation(actor=org_admin, email="new@example.com", scope=project, role=invited, days=1)
    archive_scope(actor=org_admin, scope=project)
    browser, client = browse(org_admin), call(org_admin)
    for name, thing in (("role", role), ("role", invited), ("resource-group", limit), ("user-group", crew)):
        page = browser.get(reverse(f"delete-{name}", args=[thing.pk])).content.decode()
        assert "Restore account/default/demo first" in re.sub(r"\s+", " ", page)
        response = client.delete(f"/api/v1/{name}s/{thing.pk}?although_used=true")
        assert (response.status_code, response.json()["code"]) == (409, "conflict")
        assert "Restore account/default/demo first" in response.json()["detail"]
    assert Role.objects.filter(pk=invited.pk).exists()
    assert RoleAssignment.objects.filter(role=role).exists()


def test_the_highest_archived_scope_is_named(admin: User, crew: UserGroup, call: Callable[[User], APIClient]):
    UserGroup.objects.filter(pk=crew.pk).update(scope=Scope.objects.account())
    for path in ("account/default/demo", "account/default"):
        archive_scope(actor=admin, scope=Scope.objects.get(path=path))
    response = call(admin).delete(f"/api/v1/user-groups/{crew.pk}")
    assert response.status_code == 409
    assert "Restore account/default first" in response.json()["detail"]
