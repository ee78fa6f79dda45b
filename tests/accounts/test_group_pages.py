"""Groups in the product: list, members, roles, creation, renaming and deletion."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User, UserGroup
from rbac.policy import can
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture
def crew(organization: Scope) -> UserGroup:
    return UserGroup.objects.create(scope=organization, identifier="crew", name="Crew")


def assign(group: UserGroup, role: str, scope: Scope) -> RoleAssignment:
    role_row = Role.objects.get(identifier=role, scope=None)
    return RoleAssignment.objects.create(group=group, role=role_row, scope=scope)


def read_page(browser: Client, name: str, *args: int, query: str = "") -> str:
    response = browser.get(reverse(name, args=args) + query)
    assert response.status_code == 200
    return response.content.decode()


def extract_text(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content))


def list_names(browser: Client, scope: Scope, query: str = "") -> list[str]:
    content = read_page(browser, "user-groups", query=f"?scope={scope.path}&sort=name{query}")
    return re.findall(r'<a class="name" href="/access/groups/\d+/">([^<]+)</a>', content)


def test_groups_of_the_chosen_scope_and_above_are_listed_with_roles_members_and_source(
    admin: User, viewer: User, crew: UserGroup, project: Scope, other_project: Scope, browse: Browse
) -> None:
    crew.users.add(viewer, admin)
    assign(crew, "pipeline_executor", crew.scope)
    UserGroup.objects.create(scope=other_project, identifier="else", name="Elsewhere")
    UserGroup.objects.create(scope=project, identifier="ops", name="Operators", external_name="idp-ops")
    browser = browse(admin)
    assert list_names(browser, project) == ["Crew", "Operators"]
    assert list_names(browser, project, "&show=single-sign-on") == ["Operators"]
    assert list_names(browser, project, "&show=product") == ["Crew"]
    assert list_names(browser, project, "&show=empty") == ["Operators"]
    assert list_names(browser, project, "&q=OPER") == ["Operators"]
    page_text = extract_text(read_page(browser, "user-groups", query=f"?scope={project.path}"))
    assert "Crew crew Pipeline Executor from organization default 2 Slipway account/default" in page_text
    assert "Operators ops No roles in this scope 0 Single sign-on idp-ops account/default/demo" in page_text


def test_a_group_shows_inherited_roles_and_searches_its_members(
    org_admin: User, viewer: User, deployer: User, crew: UserGroup, project: Scope, browse: Browse
) -> None:
    crew.users.add(viewer, deployer)
    assign(crew, "pipeline_executor", crew.scope)
    assign(crew, "viewer", project)
    content = read_page(browse(org_admin), "user-group", crew.pk, query=f"?scope={project.path}")
    page_text = extract_text(content)
    assert "Pipeline Executor from organization default" in page_text
    assert "Viewer in project demo" in page_text
    assert 'aria-label="Remove deployer"' in content
    found = read_page(browse(org_admin), "user-group", crew.pk, query="?q=DEPL")
    assert 'aria-label="Remove deployer"' in found
    assert 'aria-label="Remove viewer"' not in found


def test_members_out_of_sight_are_shown_and_found_by_user_name_alone(
    org_admin: User, stranger: User, crew: UserGroup, browse: Browse
) -> None:
    User.objects.filter(pk=stranger.pk).update(email="secret@example.com")
    reader = make_person("reader")
    role = Role.objects.create(scope=crew.scope, identifier="groups", name="Group reader")
    role.set_permissions(["core_usergroup_view"])
    RoleAssignment.objects.create(user=reader, role=role, scope=crew.scope)
    crew.users.add(stranger)
    content = read_page(browse(reader), "user-group", crew.pk)
    assert "stranger" in content
    assert "secret@example.com" not in content
    assert reverse("person", args=[stranger.pk]) not in content
    assert "No matching members" in read_page(browse(reader), "user-group", crew.pk, query="?q=secret")
    assert "secret@example.com" in read_page(browse(org_admin), "user-group", crew.pk, query="?q=secret")


def test_a_group_is_created_renamed_and_deleted(org_admin: User, organization: Scope, browse: Browse) -> None:
    browser = browse(org_admin)
    assert reverse("new-user-group") in read_page(browser, "user-groups")
    form = {"in_scope": organization.path, "name": "Release managers"}
    response = browser.post(reverse("new-user-group"), form)
    group = UserGroup.objects.get(identifier="Release_managers")
    assert response["Location"] == reverse("user-group", args=[group.pk])

    change = {"name": "Releasers", "external_name": "", "version": 1}
    browser.post(reverse("edit-user-group", args=[group.pk]), change)
    group.refresh_from_db()
    assert group.name == "Releasers"
    assert "It has no members." in read_page(browser, "delete-user-group", group.pk)
    response = browser.post(reverse("delete-user-group", args=[group.pk]))
    assert response["Location"] == reverse("user-groups")
    actions = AuditEntry.objects.filter(actor=org_admin).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["usergroup.create", "usergroup.update", "usergroup.delete"]


def test_a_group_with_roles_is_not_deleted(
    org_admin: User, crew: UserGroup, project: Scope, browse: Browse
) -> None:
    assign(crew, "viewer", project)
    browser = browse(org_admin)
    assert "This group has 1 role. Remove them first." in read_page(browser, "delete-user-group", crew.pk)
    assert browser.post(reverse("delete-user-group", args=[crew.pk])).status_code == 409
    assert UserGroup.objects.filter(pk=crew.pk).exists()


def test_members_are_found_by_search_added_and_removed(
    org_admin: User, viewer: User, deployer: User, crew: UserGroup, project: Scope, browse: Browse
) -> None:
    assign(crew, "viewer", project)
    browser = browse(org_admin)
    address = reverse("add-group-members", args=[crew.pk])
    content = read_page(browser, "add-group-members", crew.pk, query="?q=DEPL")
    assert f'value="{deployer.pk}"' in content
    assert f'value="{viewer.pk}"' not in content
    response = browser.post(address, {"users": [deployer.pk, viewer.pk]})
    assert response["Location"] == reverse("user-group", args=[crew.pk])
    assert set(crew.users.all()) == {deployer, viewer}
    entry = AuditEntry.objects.get(action="usergroup.update")
    assert (entry.before["users"], entry.after["users"]) == ([], ["deployer", "viewer"])
    assert f'value="{deployer.pk}"' not in read_page(browser, "add-group-members", crew.pk)

    question = read_page(browser, "remove-group-member", crew.pk, deployer.pk)
    assert "deployer loses the roles of Crew at once." in question
    browser.post(reverse("remove-group-member", args=[crew.pk, deployer.pk]))
    assert list(crew.users.all()) == [viewer]
    assert browser.get(reverse("remove-group-member", args=[crew.pk, deployer.pk])).status_code == 404


def test_a_submission_without_a_selection_says_what_to_do(
    org_admin: User, crew: UserGroup, browse: Browse
) -> None:
    response = browse(org_admin).post(reverse("add-group-members", args=[crew.pk]), {})
    assert response.status_code == 400
    assert "Select at least one person." in response.content.decode()


def test_people_out_of_sight_cannot_be_added(
    org_admin: User, stranger: User, crew: UserGroup, browse: Browse
) -> None:
    browser, address = browse(org_admin), reverse("add-group-members", args=[crew.pk])
    assert f'value="{stranger.pk}"' not in browser.get(address + "?q=stranger").content.decode()
    assert browser.post(address, {"users": [stranger.pk]}).status_code == 400
    assert not crew.users.exists()


def test_single_sign_on_manages_its_members(
    org_admin: User, viewer: User, crew: UserGroup, browse: Browse
) -> None:
    crew.users.add(viewer)
    UserGroup.objects.filter(pk=crew.pk).update(external_name="idp-crew")
    browser = browse(org_admin)
    content = read_page(browser, "user-group", crew.pk)
    assert "Single sign-on manages the members" in content
    assert "Remove viewer" not in content
    assert "Add people to idp-crew at the provider." in read_page(browser, "add-group-members", crew.pk)
    addition = browser.post(reverse("add-group-members", args=[crew.pk]), {"users": [org_admin.pk]})
    assert addition.status_code == 400
    assert browser.post(reverse("remove-group-member", args=[crew.pk, viewer.pk])).status_code == 409
    assert list(crew.users.all()) == [viewer]


def test_a_group_that_is_linked_to_the_provider_starts_without_members(
    org_admin: User, viewer: User, crew: UserGroup, browse: Browse, settings: Settings
) -> None:
    settings.OIDC_ISSUER = "https://login.example"
    crew.users.add(viewer)
    browser, address = browse(org_admin), reverse("edit-user-group", args=[crew.pk])
    change = {"name": "Crew", "external_name": "idp-crew", "version": 1}
    assert browser.post(address, change).status_code == 302
    assert not crew.users.exists()
    entry = AuditEntry.objects.get(action="usergroup.update")
    assert (entry.before["users"], entry.after["users"]) == (["viewer"], [])

    crew.users.add(viewer)
    browser.post(address, {"name": "Renamed", "external_name": "idp-crew", "version": 2})
    browser.post(address, {"name": "Renamed", "external_name": "", "version": 3})
    assert list(crew.users.all()) == [viewer]
    assert "return at their next sign-in" in browser.get(address).content.decode()


def test_a_group_is_not_linked_without_single_sign_on(
    org_admin: User, viewer: User, crew: UserGroup, browse: Browse
) -> None:
    crew.users.add(viewer)
    link = {"name": "Crew", "external_name": "idp-crew", "version": 1}
    response = browse(org_admin).post(reverse("edit-user-group", args=[crew.pk]), link)
    assert response.status_code == 400
    assert "Single sign-on with groups is not configured" in response.content.decode()
    assert list(crew.users.all()) == [viewer]


def test_nobody_adds_members_to_a_group_with_more_permissions_than_their_own(
    org_admin: User, viewer: User, crew: UserGroup, browse: Browse
) -> None:
    assign(crew, "account_admin", crew.scope)
    browser = browse(org_admin)
    response = browser.post(reverse("add-group-members", args=[crew.pk]), {"users": [viewer.pk]})
    assert response.status_code == 400
    assert "which you do not have in their scope" in response.content.decode()
    link = {"name": "Crew", "external_name": "everybody", "version": 1}
    assert browser.post(reverse("edit-user-group", args=[crew.pk]), link).status_code == 400
    assert not crew.users.exists()


def test_a_role_is_assigned_to_a_group_at_its_scope_or_below_and_removed(
    admin: User, viewer: User, crew: UserGroup, project: Scope, account: Scope, browse: Browse
) -> None:
    crew.users.add(viewer)
    browser, address = browse(admin), reverse("assign-role-to-group", args=[crew.pk])
    assert f'<option value="{account.path}"' not in browser.get(address).content.decode()
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    form = {"in_scope": project.path, "role": role.pk, "expires": "7"}
    assert browser.post(address, form)["Location"] == reverse("user-group", args=[crew.pk])
    assignment = RoleAssignment.objects.get(group=crew)
    assert assignment.expires_at is not None
    assert can(User.objects.get(pk=viewer.pk), "core_pipeline_execute", project)
    assert browser.post(address, form | {"in_scope": account.path}).status_code == 400

    question = read_page(browser, "remove-role-assignment", assignment.pk)
    assert "Every member of Crew loses them." in question
    response = browser.post(reverse("remove-role-assignment", args=[assignment.pk]))
    assert response["Location"] == reverse("user-group", args=[crew.pk])
    assert not can(User.objects.get(pk=viewer.pk), "core_pipeline_execute", project)


def test_a_viewer_sees_groups_without_actions(
    viewer: User, project: Scope, admin: User, browse: Browse
) -> None:
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    group.users.add(admin)
    browser = browse(viewer)
    content = read_page(browser, "user-group", group.pk)
    for action in ("Assign role", "Delete", "Add members", "Remove"):
        assert action not in content
    assert browser.post(reverse("delete-user-group", args=[group.pk])).status_code == 403
    assert browser.post(reverse("add-group-members", args=[group.pk]), {}).status_code == 403


def test_a_group_of_another_scope_is_not_found(viewer: User, other_project: Scope, browse: Browse) -> None:
    group = UserGroup.objects.create(scope=other_project, identifier="else", name="Elsewhere")
    browser = browse(viewer)
    for name in ("user-group", "edit-user-group", "add-group-members", "assign-role-to-group"):
        assert browser.get(reverse(name, args=[group.pk])).status_code == 404


def test_a_person_and_a_role_lead_to_their_groups(
    admin: User, viewer: User, crew: UserGroup, project: Scope, browse: Browse
) -> None:
    crew.users.add(viewer)
    assignment = assign(crew, "pipeline_executor", project)
    link = f'href="{reverse("user-group", args=[crew.pk])}"'
    assert link in read_page(browse(admin), "person", viewer.pk)
    assert link in read_page(browse(admin), "role", assignment.role_id)
    assert link not in read_page(browse(viewer), "role", assignment.role_id)
