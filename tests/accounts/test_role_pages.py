"""Roles in the product: list, permissions in words, holders, creation, editing and deletion."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from rbac.models import AuditEntry, ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import create_invitation
from tests.fixtures.people import make_person
from tests.rbac.people import grant

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


def extract_text(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def test_built_in_roles_and_those_of_the_chosen_scope_are_listed(
    admin: User, project: Scope, other_project: Scope, browse: Browse
) -> None:
    Role.objects.create(scope=project, identifier="own", name="Own role")
    Role.objects.create(scope=other_project, identifier="foreign", name="Foreign role")
    browser = browse(admin)
    content = browser.get(reverse("roles") + f"?scope={project.path}").content.decode()
    assert "Own role" in content
    assert "Account Admin" in content
    assert "Foreign role" not in content
    content = browser.get(reverse("roles") + "?show=custom").content.decode()
    assert "Own role" in content
    assert "Account Admin" not in content


def test_a_role_names_its_permissions_and_its_holders(
    admin: User, viewer: User, project: Scope, browse: Browse
) -> None:
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(group=group, role=role, scope=project)
    grant(viewer, "pipeline_executor", project)
    page_text = extract_text(browse(admin).get(reverse("role", args=[role.pk])).content.decode())
    assert "Pipelines View, Execute, Abort Create/Edit, Delete" in page_text
    assert f"Crew Group in project {project.name}" in page_text
    assert f"viewer in project {project.name}" in page_text


def test_assignments_out_of_sight_are_neither_counted_nor_shown(
    viewer: User, stranger: User, project: Scope, browse: Browse
) -> None:
    role = Role.objects.get(identifier="project_admin", scope=None)
    browser = browse(viewer)
    content = browser.get(reverse("role", args=[role.pk])).content.decode()
    assert "No assignments that you can view" in content
    assert "stranger" not in content
    page = browser.get(reverse("roles") + f"?scope={project.path}&q=project_admin").content.decode()
    assert '<td class="wide">0</td>' in page


def test_a_role_of_another_scope_is_not_found(viewer: User, other_project: Scope, browse: Browse) -> None:
    role = Role.objects.create(scope=other_project, identifier="foreign", name="Foreign role")
    assert browse(viewer).get(reverse("role", args=[role.pk])).status_code == 404


@pytest.fixture
def releaser(project: Scope) -> Role:
    role = Role.objects.create(scope=project, identifier="releaser", name="Releaser")
    role.set_permissions(["core_delegate_view", "core_pipeline_view", "core_pipeline_execute"])
    return role


def list_permissions(role: Role) -> set[str]:
    return set(role.permissions.values_list("permission", flat=True))


def find_checkbox(content: str, permission: str) -> str:
    (tag,) = re.findall(rf'<input type="checkbox" name="permissions" value="{permission}"[^>]*>', content)
    return str(tag)


def test_a_role_is_created_edited_and_deleted(org_admin: User, project: Scope, browse: Browse) -> None:
    browser = browse(org_admin)
    assert reverse("new-role") in browser.get(reverse("roles")).content.decode()
    form = {"in_scope": project.path, "name": "Release manager", "permissions": ["core_pipeline_execute"]}
    response = browser.post(reverse("new-role"), form)
    role = Role.objects.get(identifier="release_manager", scope=project)
    assert response["Location"] == reverse("role", args=[role.pk])
    assert list_permissions(role) == {"core_pipeline_execute", "core_delegate_view"}

    change = {"name": "Releaser", "permissions": ["core_pipeline_view"], "version": 1}
    assert browser.post(reverse("edit-role", args=[role.pk]), change).status_code == 302
    role.refresh_from_db()
    assert role.name == "Releaser"
    assert list_permissions(role) == {"core_pipeline_view", "core_delegate_view"}

    address = reverse("delete-role", args=[role.pk])
    assert "Nobody has this role." in browser.get(address).content.decode()
    assert browser.post(address)["Location"] == reverse("roles")
    actions = AuditEntry.objects.filter(actor=org_admin).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["role.create", "role.update", "role.delete"]


def test_the_table_names_permissions_in_words_and_locks_what_the_reader_cannot_grant(
    org_admin: User, releaser: Role, browse: Browse
) -> None:
    content = browse(org_admin).get(reverse("edit-role", args=[releaser.pk])).content.decode()
    assert "Run pipelines" in extract_text(content)
    assert "checked" in find_checkbox(content, "core_pipeline_execute")
    assert "checked" not in find_checkbox(content, "core_pipeline_delete")
    assert "checked disabled" in find_checkbox(content, "core_delegate_view")
    assert "disabled" in find_checkbox(content, "core_account_edit")
    assert "disabled" not in find_checkbox(content, "core_pipeline_delete")


def test_nobody_grants_a_permission_that_they_do_not_have(
    org_admin: User, project: Scope, releaser: Role, browse: Browse
) -> None:
    browser = browse(org_admin)
    form = {
        "in_scope": project.path, "name": "Too much", "permissions": ["core_account_edit"], "version": 1,
    }  # fmt: skip
    for address in (reverse("new-role"), reverse("edit-role", args=[releaser.pk])):
        response = browser.post(address, form)
        assert response.status_code == 400
        assert "You cannot grant permission to create and edit account" in response.content.decode()
    assert not Role.objects.filter(name="Too much").exists()


def test_a_permission_that_the_editor_lacks_stays_and_can_be_taken_away(
    org_admin: User, releaser: Role, browse: Browse
) -> None:
    releaser.set_permissions(["core_delegate_view", "core_account_edit"])
    browser, address = browse(org_admin), reverse("edit-role", args=[releaser.pk])
    assert "disabled" not in find_checkbox(browser.get(address).content.decode(), "core_account_edit")
    kept = ["core_account_edit", "core_file_view"]
    browser.post(address, {"name": "Releaser", "permissions": kept, "version": 1})
    assert "core_account_edit" in list_permissions(releaser)
    browser.post(address, {"name": "Releaser", "permissions": ["core_file_view"], "version": 2})
    assert "core_account_edit" not in list_permissions(releaser)


def test_of_two_editors_the_second_one_sees_what_the_first_one_saved(
    org_admin: User, releaser: Role, browse: Browse
) -> None:
    browser, address = browse(org_admin), reverse("edit-role", args=[releaser.pk])
    assert 'name="version" value="1"' in browser.get(address).content.decode()
    first = {"name": "First", "permissions": ["core_pipeline_view"], "version": 1}
    assert browser.post(address, first).status_code == 302

    second = {"name": "Second", "permissions": ["core_file_view"], "version": 1}
    response = browser.post(address, second)
    content = response.content.decode()
    assert response.status_code == 409
    assert "Someone else saved a newer version" in content
    assert "checked" in find_checkbox(content, "core_file_view")
    assert 'name="version" value="2"' in content
    releaser.refresh_from_db()
    assert (releaser.name, list_permissions(releaser)) == (
        "First",
        {"core_pipeline_view", "core_delegate_view"},
    )
    assert browser.post(address, second | {"version": 2}).status_code == 302
    releaser.refresh_from_db()
    assert (releaser.name, releaser.version) == ("Second", 3)


def test_a_used_identifier_is_an_error_at_its_field(
    org_admin: User, project: Scope, releaser: Role, browse: Browse
) -> None:
    for identifier in ("releaser", "viewer", "not good"):
        form = {"in_scope": project.path, "name": "New", "identifier": identifier}
        response = browse(org_admin).post(reverse("new-role"), form)
        assert response.status_code == 400
        assert 'id="role-identifier_error"' in response.content.decode()


def test_a_built_in_role_can_be_copied_and_never_changed(admin: User, project: Scope, browse: Browse) -> None:
    executor = Role.objects.get(identifier="pipeline_executor", scope=None)
    browser = browse(admin)
    page = browser.get(reverse("role", args=[executor.pk])).content.decode()
    assert f"{reverse('new-role')}?copy={executor.pk}" in page
    assert reverse("edit-role", args=[executor.pk]) not in page
    content = browser.get(f"{reverse('new-role')}?copy={executor.pk}").content.decode()
    assert "Copy of Pipeline Executor" in content
    assert "checked" in find_checkbox(content, "core_pipeline_execute")
    for name in ("edit-role", "delete-role"):
        assert browser.post(reverse(name, args=[executor.pk]), {"name": "Mine"}).status_code == 404


def test_a_deletion_names_who_loses_what_and_removes_the_assignments(
    org_admin: User, viewer: User, project: Scope, releaser: Role, browse: Browse
) -> None:
    crew = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    RoleAssignment.objects.create(group=crew, role=releaser, scope=project)
    RoleAssignment.objects.create(user=viewer, role=releaser, scope=project)
    browser, address = browse(org_admin), reverse("delete-role", args=[releaser.pk])
    page_text = extract_text(browser.get(address).content.decode())
    assert f"Crew in project {project.name} , viewer in project {project.name}" in page_text
    assert "its holders can no longer view delegates and view and run pipelines." in page_text
    assert browser.post(address).status_code == 400
    assert browser.post(address, {"although_used": "on"})["Location"] == reverse("roles")
    assert not Role.objects.filter(pk=releaser.pk).exists()
    actions = AuditEntry.objects.filter(actor=org_admin).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["roleassignment.delete", "roleassignment.delete", "role.delete"]


def test_a_role_is_not_deleted_by_somebody_who_cannot_remove_its_assignments(
    viewer: User, project: Scope, releaser: Role, browse: Browse
) -> None:
    RoleAssignment.objects.create(user=viewer, role=releaser, scope=project)
    cleaner = make_person("cleaner")
    role = Role.objects.create(scope=project, identifier="cleaner", name="Cleaner")
    role.set_permissions(["core_role_view", "core_role_delete", "core_user_view"])
    RoleAssignment.objects.create(user=cleaner, role=role, scope=project)
    browser, address = browse(cleaner), reverse("delete-role", args=[releaser.pk])
    content = browser.get(address).content.decode()
    assert "in scopes where you do not have core_user_manage" in content
    assert "Delete role" not in content
    assert browser.post(address, {"although_used": "on"}).status_code == 409
    assert RoleAssignment.objects.filter(role=releaser).exists()


def test_a_role_of_a_pending_invitation_is_not_deleted(
    admin: User, project: Scope, releaser: Role, browse: Browse
) -> None:
    create_invitation(actor=admin, email="new@example.com", scope=project, role=releaser, days=1)
    browser, address = browse(admin), reverse("delete-role", args=[releaser.pk])
    assert "A pending invitation uses this role." in browser.get(address).content.decode()
    assert browser.post(address).status_code == 409


def test_a_viewer_sees_roles_without_actions(viewer: User, releaser: Role, browse: Browse) -> None:
    browser = browse(viewer)
    content = browser.get(reverse("role", args=[releaser.pk])).content.decode()
    for name in ("edit-role", "delete-role"):
        address = reverse(name, args=[releaser.pk])
        assert address not in content
        assert browser.post(address, {"name": "Mine"}).status_code == 403
    assert reverse("new-role") not in content
    assert browser.get(reverse("new-role")).status_code == 403


def test_the_api_removes_the_assignments_of_a_role_where_that_is_agreed_to(
    org_admin: User, viewer: User, project: Scope, releaser: Role, call: Callable[[User], APIClient]
) -> None:
    RoleAssignment.objects.create(user=viewer, role=releaser, scope=project)
    client, address = call(org_admin), f"/api/v1/roles/{releaser.pk}"
    assert client.delete(address).status_code == 409
    assert client.delete(f"{address}?although_used=true").status_code == 204
    assert not RoleAssignment.objects.filter(user=viewer, scope=project, role=releaser.pk).exists()


def test_an_assignment_gets_a_new_role_and_a_new_resource_group(
    org_admin: User, viewer: User, project: Scope, browse: Browse
) -> None:
    browser, form = browse(org_admin), reverse("assign-role-to-person", args=[viewer.pk])
    typed = {"in_scope": project.path, "role": "", "resource_group": "", "expires": "7"}
    address = browser.post(form, typed | {"create_for": "role"})["Location"]
    new = {"in_scope": project.path, "name": "Night shift", "permissions": ["core_pipeline_execute"]}
    back = browser.post(address, new)["Location"]
    role = Role.objects.get(identifier="night_shift")
    content = browser.get(back).content.decode()
    assert f'<option value="{role.pk}" selected>' in content
    assert '<option value="7" selected>' in content
    typed["role"] = str(role.pk)
    address = browser.post(back, typed | {"create_for": "resource_group"})["Location"]
    group_form = {"in_scope": project.path, "name": "Shop", "types": ["pipeline"]}
    back = browser.post(address, group_form)["Location"]
    group = ResourceGroup.objects.get(name="Shop")
    assert browser.post(back, typed | {"resource_group": str(group.pk)}).status_code == 302
    assignment = RoleAssignment.objects.get(role=role)
    assert (assignment.user, assignment.resource_group) == (viewer, group)


def test_a_role_for_an_assignment_is_created_where_it_can_be_assigned(
    admin: User, viewer: User, project: Scope, other_project: Scope, browse: Browse
) -> None:
    browser, form = browse(admin), reverse("assign-role-to-person", args=[viewer.pk])
    address = browser.post(form, {"in_scope": project.path, "create_for": "role"})["Location"]
    content = browser.get(address).content.decode()
    assert f'value="{project.path}"' in content
    assert f'value="{other_project.path}"' not in content.partition('name="in_scope"')[2]
