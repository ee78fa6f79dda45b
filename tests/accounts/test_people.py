"""People in the product: list, roles in words, assignment of roles, disabling, reset of the second factor."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from accounts.authentication.two_factor import reset_two_factor
from rbac.models import AuditEntry, ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import assign_role
from tests.fixtures.people import make_person
from tests.rbac.people import grant

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


def read_page(browser: Client, name: str, *args: int, query: str = "") -> str:
    response = browser.get(reverse(name, args=args) + query)
    assert response.status_code == 200
    return response.content.decode()


def list_names(browser: Client, scope: Scope, query: str = "") -> list[str]:
    content = read_page(browser, "people", query=f"?scope={scope.path}&sort=name{query}")
    return re.findall(r'<a class="name" href="/access/people/\d+/">([^<]+)</a>', content)


def extract_text(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def test_people_of_the_chosen_scope_and_above_are_listed(
    admin: User, org_admin: User, viewer: User, stranger: User, project: Scope, account: Scope, browse: Browse
) -> None:
    unassigned_user = make_person("nobody")
    assert list_names(browse(admin), account) == ["admin", "nobody", "org_admin", "stranger", "viewer"]
    assert list_names(browse(admin), project) == ["admin", "org_admin", "viewer"]
    assert list_names(browse(org_admin), project) == ["org_admin", "viewer"]
    assert list_names(browse(unassigned_user), project) == []


def test_an_inherited_role_names_its_scope_and_group(
    admin: User, viewer: User, project: Scope, organization: Scope, browse: Browse
) -> None:
    group = UserGroup.objects.create(scope=organization, identifier="crew", name="Crew")
    group.users.add(viewer)
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(group=group, role=role, scope=organization)
    page_text = extract_text(read_page(browse(admin), "people", query=f"?scope={project.path}&q=viewer"))
    assert f"Viewer in project {project.name}" in page_text
    assert f"Pipeline Executor from organization {organization.name}, through group Crew" in page_text


def test_people_are_found_by_text_and_by_filters(
    admin: User, viewer: User, account: Scope, browse: Browse, settings: Settings
) -> None:
    settings.OIDC_ISSUER = "x"
    User.objects.filter(pk=viewer.pk).update(first_name="Mona", is_active=False)
    Authenticator.objects.create(user=admin, type=Authenticator.Type.TOTP, data={})
    password_less = make_person("single")
    password_less.set_unusable_password()
    password_less.save()
    SocialAccount.objects.create(user=password_less, provider="x", uid="y")
    browser = browse(admin)
    assert list_names(browser, account, "&q=MON") == ["viewer"]
    assert list_names(browser, account, "&show=disabled") == ["viewer"]
    assert list_names(browser, account, "&show=no-second-factor") == ["single", "viewer"]
    assert list_names(browser, account, "&show=single-sign-on") == ["single"]
    assert list_names(browser, account, "&show=local") == ["admin", "viewer"]
    assert "No matching people" in read_page(browser, "people", query="?q=nobody-has-this-name")


def test_a_person_out_of_sight_is_not_found(org_admin: User, stranger: User, browse: Browse) -> None:
    browser = browse(org_admin)
    for name in ("person", "disable-user", "assign-role-to-person"):
        assert browser.get(reverse(name, args=[stranger.pk])).status_code == 404


def test_roles_elsewhere_are_not_shown(
    org_admin: User, viewer: User, other_project: Scope, browse: Browse
) -> None:
    grant(viewer, "delegate_manager", other_project)
    content = read_page(browse(org_admin), "person", viewer.pk)
    assert "Viewer" in content
    assert "Delegate Manager" not in content


def test_a_role_is_assigned_from_the_page_of_a_person_and_removed(
    org_admin: User, viewer: User, project: Scope, browse: Browse
) -> None:
    browser = browse(org_admin)
    assert reverse("assign-role-to-person", args=[viewer.pk]) in read_page(browser, "person", viewer.pk)
    resource_group = ResourceGroup.objects.create(scope=project, identifier="web", name="Web")
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    form = {"in_scope": project.path, "role": role.pk, "resource_group": resource_group.pk}
    response = browser.post(reverse("assign-role-to-person", args=[viewer.pk]), form)
    assert response["Location"] == reverse("person", args=[viewer.pk])
    assignment = RoleAssignment.objects.get(user=viewer, role=role)
    assert (assignment.scope, assignment.resource_group) == (project, resource_group)
    entry = AuditEntry.objects.get(action="roleassignment.create")
    assert entry.actor == org_admin
    assert "Pipeline Executor" in read_page(browser, "person", viewer.pk)

    duplicate_response = browser.post(reverse("assign-role-to-person", args=[viewer.pk]), form)
    assert duplicate_response.status_code == 400
    assert "already has the role" in duplicate_response.content.decode()

    response = browser.post(reverse("remove-role-assignment", args=[assignment.pk]))
    assert response["Location"] == reverse("person", args=[viewer.pk])
    assert not RoleAssignment.objects.filter(pk=assignment.pk).exists()


def test_an_expired_role_is_assigned_again(admin: User, stranger: User, project: Scope) -> None:
    role = Role.objects.get(identifier="viewer", scope=None)
    grant(stranger, "viewer", project, expires_at=timezone.now())
    new = assign_role(actor=admin, scope=project, role=role, user=stranger)
    assert stranger.assignments.get(scope=project) == new
    assert AuditEntry.objects.filter(action="roleassignment.delete", actor=admin).count() == 1
    expires_at = timezone.now() + timedelta(days=1)
    with pytest.raises(ValidationError, match="already has the role"):
        assign_role(actor=admin, scope=project, role=role, user=stranger, expires_at=expires_at)


def test_nobody_assigns_a_role_with_more_permissions_than_their_own(
    org_admin: User, viewer: User, organization: Scope, browse: Browse
) -> None:
    role = Role.objects.get(identifier="account_admin", scope=None)
    form = {"in_scope": organization.path, "role": role.pk}
    response = browse(org_admin).post(reverse("assign-role-to-person", args=[viewer.pk]), form)
    assert response.status_code == 400
    assert "You cannot assign this role" in response.content.decode()
    assert not RoleAssignment.objects.filter(user=viewer, role=role).exists()


def test_a_viewer_sees_people_without_actions(
    viewer: User, org_admin: User, project: Scope, browse: Browse
) -> None:
    grant(org_admin, "viewer", project)
    browser = browse(viewer)
    content = read_page(browser, "person", org_admin.pk)
    assert "Assign role" not in content
    assert "Disable" not in content
    assert browser.get(reverse("assign-role-to-person", args=[org_admin.pk])).status_code == 403
    assert browser.post(reverse("disable-user", args=[org_admin.pk])).status_code == 403


def test_a_disabled_user_is_signed_out_until_enabled_and_signed_in_again(
    admin: User, viewer: User, browse: Browse
) -> None:
    browser, reader = browse(admin), Client()
    reader.force_login(viewer)
    assert reader.get(reverse("people")).status_code == 200
    assert "can no longer sign in" in read_page(browser, "disable-user", viewer.pk)
    assert browser.post(reverse("disable-user", args=[viewer.pk])).status_code == 302
    viewer.refresh_from_db()
    assert not viewer.is_active
    assert reader.get(reverse("people")).status_code == 302
    entry = AuditEntry.objects.get(action="user.update")
    assert (entry.actor, entry.after) == (admin, {"is_active": False})

    assert browser.post(reverse("enable-user", args=[viewer.pk])).status_code == 302
    viewer.refresh_from_db()
    assert viewer.is_active
    assert reader.get(reverse("people")).status_code == 302


def test_a_session_that_met_the_disabling_does_not_open_when_the_user_is_enabled(
    admin: User, viewer: User, browse: Browse
) -> None:
    reader = browse(viewer)
    assert reader.get(reverse("people")).status_code == 200
    User.objects.filter(pk=viewer.pk).update(is_active=False)
    assert browse(admin).post(reverse("enable-user", args=[viewer.pk])).status_code == 302
    assert reader.get(reverse("people")).status_code == 302


def test_only_an_administrator_of_the_account_disables_users(
    org_admin: User, viewer: User, browse: Browse
) -> None:
    assert browse(org_admin).post(reverse("disable-user", args=[viewer.pk])).status_code == 403
    viewer.refresh_from_db()
    assert viewer.is_active


def test_administrators_do_not_disable_themselves(admin: User, browse: Browse) -> None:
    browser = browse(admin)
    assert "This is your own user" in read_page(browser, "disable-user", admin.pk)
    assert browser.post(reverse("disable-user", args=[admin.pk])).status_code == 409
    admin.refresh_from_db()
    assert admin.is_active


def test_a_user_with_more_permissions_cannot_be_disabled(
    admin: User, viewer: User, account: Scope, browse: Browse
) -> None:
    role = Role.objects.create(scope=account, identifier="people", name="People manager")
    role.set_permissions(["core_user_view", "core_user_manage"])
    manager = make_person("manager")
    RoleAssignment.objects.create(user=manager, role=role, scope=account)
    browser = browse(manager)
    assert browser.post(reverse("disable-user", args=[admin.pk])).status_code == 403
    assert browser.post(reverse("reset-second-factor", args=[admin.pk])).status_code == 403
    assert User.objects.get(pk=admin.pk).is_active


def test_a_second_factor_is_reset(admin: User, viewer: User, browse: Browse) -> None:
    browser = browse(admin)
    assert "This user has no second factor." in read_page(browser, "reset-second-factor", viewer.pk)
    Authenticator.objects.create(user=viewer, type=Authenticator.Type.TOTP, data={})
    assert "Reset second factor" in read_page(browser, "person", viewer.pk)
    assert "Verify the identity" in read_page(browser, "reset-second-factor", viewer.pk)
    assert browser.post(reverse("reset-second-factor", args=[viewer.pk])).status_code == 302
    assert not Authenticator.objects.filter(user=viewer).exists()
    assert AuditEntry.objects.get(action="user.two_factor_off").actor == admin


def test_passkeys_that_are_the_only_way_to_sign_in_are_not_reset(
    admin: User, viewer: User, browse: Browse, settings: Settings
) -> None:
    data = {"name": "Phone", "is_passwordless": True}
    Authenticator.objects.create(user=viewer, type=Authenticator.Type.WEBAUTHN, data=data)
    viewer.set_unusable_password()
    viewer.save()
    browser = browse(admin)
    assert "Set a password first" in read_page(browser, "reset-second-factor", viewer.pk)
    assert browser.post(reverse("reset-second-factor", args=[viewer.pk])).status_code == 409
    with pytest.raises(ValidationError, match="Set a password first"):
        reset_two_factor(actor=admin, person=viewer)
    with pytest.raises(CommandError, match="Set a password first"):
        call_command("turn_off_second_factor", "viewer")
    assert Authenticator.objects.filter(user=viewer).exists()

    settings.OIDC_ISSUER = "https://login.example.com"
    SocialAccount.objects.create(user=viewer, provider=settings.OIDC_ISSUER, uid="u-1")
    assert "needs single sign-on alone" in read_page(browser, "reset-second-factor", viewer.pk)
    assert browser.post(reverse("reset-second-factor", args=[viewer.pk])).status_code == 302
    assert not Authenticator.objects.filter(user=viewer).exists()


def read_effective_access(browser: Client, person: User, scope: Scope) -> str:
    content = read_page(browser, "person", person.pk, query=f"?scope={scope.path}")
    panel = re.search(r'aria-labelledby="effective".*?</section>', content, re.DOTALL)
    return extract_text(panel[0]) if panel else ""


def test_effective_access_says_in_words_what_a_person_can_do_in_each_scope_and_why(
    admin: User, viewer: User, project: Scope, organization: Scope, browse: Browse
) -> None:
    group = UserGroup.objects.create(scope=organization, identifier="crew", name="Crew")
    group.users.add(viewer)
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(group=group, role=role, scope=organization)
    text = read_effective_access(browse(admin), viewer, project)
    of_organization, of_project = text.split("Project demo account/default/demo")
    assert "View, run and abort runs of pipelines" in of_organization
    assert "Pipeline Executor in organization default, through group Crew" in of_organization
    assert "Pipeline Executor from organization default, through group Crew" in of_project
    assert "Viewer in project demo" in of_project
    assert "Viewer" not in of_organization
    admin_text = read_effective_access(browse(admin), admin, project)
    assert "Do everything Account Admin in the account" in admin_text
    assert "Do everything Account Admin from the account" in admin_text


def test_effective_access_leaves_out_expired_roles_and_roles_out_of_sight(
    admin: User, org_admin: User, viewer: User, project: Scope, other_project: Scope, browse: Browse
) -> None:
    grant(viewer, "delegate_manager", other_project)
    RoleAssignment.objects.filter(user=viewer, scope=project).update(expires_at="2020-01-01T00:00:00Z")
    assert "Delegate Manager" in read_effective_access(browse(admin), viewer, project)
    assert read_effective_access(browse(org_admin), viewer, project) == ""
