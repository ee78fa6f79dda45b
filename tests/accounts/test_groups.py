"""Groups of people and of things by the API: what is in them, and who may say so."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from pytest_django import Settings
from rest_framework.test import APIClient

from rbac.models import AuditEntry, ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import add_group_members, create_user_group, delete_user_group, update_user_group
from rbac.operations.resource_groups import add_resource_group_entries, update_resource_group
from rbac.policy import NotVisible
from tests.fixtures.interleaving import act_after

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]


@pytest.fixture
def org_admin(project: Scope) -> User:
    """Somebody who may everything in one organization, but nothing above it."""
    person = User.objects.create_user("org_admin", first_name="Olga")
    role = Role.objects.get(identifier="organization_admin")
    RoleAssignment.objects.create(user=person, role=role, scope=Scope.objects.get(path="account/default"))
    return person


def test_a_resource_group_is_made_changed_and_deleted(admin: User, project: Scope, call: Call):
    client = call(admin)
    entries = [{"resource": "service", "identifier": ""}, {"resource": "pipeline", "identifier": "web"}]
    body = {"name": "Web things", "scope": project.path, "entries": entries}
    created_group = client.post("/api/v1/resource-groups", body, format="json").json()
    assert created_group["identifier"] == "Web_things"
    assert sorted(entry["resource"] for entry in created_group["entries"]) == ["pipeline", "service"]

    address = f"/api/v1/resource-groups/{created_group['id']}"
    updated_group = client.patch(address, {"entries": entries[1:]}, format="json").json()
    assert updated_group["entries"] == entries[1:]
    assert updated_group["name"] == "Web things"
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    audit_entries = AuditEntry.objects.filter(thing_type="rbac.resourcegroup").order_by("pk")
    assert [entry.action for entry in audit_entries] == [
        "resourcegroup.create",
        "resourcegroup.update",
        "resourcegroup.delete",
    ]
    update = audit_entries[1]
    assert update.before["entries"] == ["pipeline: web", "service: all"]
    assert update.after["entries"] == ["pipeline: web"]


@pytest.mark.parametrize(
    "change",
    [
        {"entries": [{"resource": "moon"}]},
        {"entries": [{"resource": "pipeline", "identifier": str(number)} for number in range(201)]},
        {"entries": [{"identifier": "web"}]},
        {"name": "a\nb"},
        {"identifier": "no spaces"},
        {"things": []},
    ],
)
def test_bad_resource_groups_are_refused(admin: User, project: Scope, call: Call, change: dict[str, Any]):
    body = {"name": "Web things", "scope": project.path} | change
    response = call(admin).post("/api/v1/resource-groups", body, format="json")
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"]
    assert not ResourceGroup.objects.exists()


def test_an_assignment_names_its_resource_group_which_then_stays(
    admin: User, viewer: User, project: Scope, call: Call
):
    client = call(admin)
    group = ResourceGroup.objects.create(scope=project, identifier="web", name="Web")
    body = {"principal": {"type": "user", "id": viewer.pk}, "role": "viewer", "scope": project.path}
    response = client.post("/api/v1/role-assignments", body | {"resource_group": "web"}, format="json")
    assert response.json()["resource_group"] == "web"
    delete_response = client.delete(f"/api/v1/resource-groups/{group.pk}")
    assert delete_response.status_code == 409
    assert "Remove them first" in delete_response.json()["detail"]


def test_a_resource_group_in_use_grows_by_those_only_who_could_give_the_role(
    org_admin: User, viewer: User, project: Scope, call: Call
):
    group = ResourceGroup.objects.create(scope=project, identifier="web", name="Web")
    admin_role = Role.objects.get(identifier="account_admin")
    RoleAssignment.objects.create(user=viewer, role=admin_role, scope=project, resource_group=group)
    address = f"/api/v1/resource-groups/{group.pk}"
    extra_entries = {"entries": [{"resource": "deploymentfreeze"}]}
    assert call(org_admin).patch(address, extra_entries, format="json").status_code == 403
    assert call(org_admin).patch(address, {"name": "Renamed"}, format="json").status_code == 200


def test_a_group_is_made_with_its_members_and_changed(admin: User, viewer: User, project: Scope, call: Call):
    client = call(admin)
    body = {"name": "Crew", "scope": project.path, "users": [viewer.pk]}
    created_group = client.post("/api/v1/user-groups", body, format="json").json()
    assert [member["username"] for member in created_group["users"]] == ["viewer"]
    address = f"/api/v1/user-groups/{created_group['id']}"
    assert client.patch(address, {"name": "Crew 2"}, format="json").json()["user_count"] == 1
    assert client.patch(address, {"users": []}, format="json").json()["users"] == []
    assert client.get("/api/v1/user-groups").json()["results"][0]["name"] == "Crew 2"
    entry = AuditEntry.objects.filter(action="usergroup.update").order_by("pk").last()
    assert entry is not None
    assert (entry.before["users"], entry.after["users"]) == (["viewer"], [])
    assert client.delete(address).status_code == 204


def test_nobody_joins_a_group_that_may_more_than_who_decides(org_admin: User, project: Scope, call: Call):
    group = UserGroup.objects.create(scope=project, identifier="mighty", name="Mighty")
    role = Role.objects.get(identifier="account_admin")
    RoleAssignment.objects.create(group=group, role=role, scope=project)
    client, address = call(org_admin), f"/api/v1/user-groups/{group.pk}"
    assert client.patch(address, {"users": [org_admin.pk]}, format="json").status_code == 403
    assert client.patch(address, {"external_name": "everybody"}, format="json").status_code == 403
    assert client.patch(address, {"name": "Renamed"}, format="json").status_code == 200
    assert client.delete(address).status_code == 400
    assert not group.users.exists()


def test_a_group_of_the_provider_has_no_other_members(
    admin: User, project: Scope, call: Call, settings: Settings
):
    settings.OIDC_ISSUER = "https://login.example"
    body = {"name": "Crew", "scope": project.path, "external_name": "crew"}
    client = call(admin)
    created_group = client.post("/api/v1/user-groups", body, format="json").json()
    response = client.patch(
        f"/api/v1/user-groups/{created_group['id']}", {"users": [admin.pk]}, format="json"
    )
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "users"
    duplicate_response = client.post("/api/v1/user-groups", body | {"name": "Twin"}, format="json")
    assert duplicate_response.json()["errors"][0]["path"] == "external_name"


def test_the_members_of_a_group_of_the_provider_are_not_replaced_by_nobody(
    admin: User, viewer: User, project: Scope, call: Call
):
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew", external_name="crew")
    group.users.add(viewer)
    client, address = call(admin), f"/api/v1/user-groups/{group.pk}"
    response = client.patch(address, {"users": []}, format="json")
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "users"
    assert list(group.users.all()) == [viewer]
    assert client.patch(address, {"users": [viewer.pk], "name": "New"}, format="json").status_code == 200


def test_nobody_joins_a_group_that_was_just_linked_to_the_provider(
    admin: User, viewer: User, project: Scope, settings: Settings
):
    settings.OIDC_ISSUER = "https://login.example"
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    group.users.add(viewer)
    read_earlier = UserGroup.objects.get(pk=group.pk)
    update_user_group(actor=admin, group=group, name="Crew", external_name="crew")

    with pytest.raises(ValidationError, match="come from the single sign-on provider"):
        add_group_members(actor=admin, group=read_earlier, users=[viewer])
    assert not group.users.exists()


def test_a_group_that_was_just_deleted_is_not_changed(admin: User, viewer: User, project: Scope):
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    read_earlier = UserGroup.objects.get(pk=group.pk)
    delete_user_group(actor=admin, group=group)
    with pytest.raises(NotVisible):
        update_user_group(actor=admin, group=read_earlier, name="Crew", external_name="")
    with pytest.raises(NotVisible):
        add_group_members(actor=admin, group=read_earlier, users=[viewer])


@pytest.mark.parametrize("is_new", [True, False])
def test_a_group_of_the_provider_that_another_group_takes_meanwhile_is_refused(
    admin: User, project: Scope, settings: Settings, is_new: bool
):
    settings.OIDC_ISSUER = "https://login.example"
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")

    def link_another() -> None:
        UserGroup.objects.create(scope=project, identifier="other", name="Other", external_name="crew")

    def link() -> None:
        if is_new:
            create_user_group(actor=admin, scope=project, name="New", external_name="crew")
        else:
            update_user_group(actor=admin, group=group, name="Crew", external_name="crew")

    reads_links = '"rbac_usergroup"."external_name" ='
    with act_after(reads_links, link_another), pytest.raises(ValidationError) as refusal:
        link()
    assert "already linked to this provider group" in refusal.value.message_dict["external_name"][0]


@pytest.mark.parametrize(("issuer", "claim"), [("", "groups"), ("https://login.example", "")])
def test_a_group_is_linked_only_where_single_sign_on_names_groups(
    admin: User, viewer: User, project: Scope, call: Call, settings: Settings, issuer: str, claim: str
):
    settings.OIDC_ISSUER, settings.OIDC_GROUPS_CLAIM = issuer, claim
    group = UserGroup.objects.create(scope=project, identifier="crew", name="Crew")
    group.users.add(viewer)
    client, address = call(admin), f"/api/v1/user-groups/{group.pk}"
    body = {"name": "New", "scope": project.path, "external_name": "crew"}
    for response in (
        client.post("/api/v1/user-groups", body, format="json"),
        client.patch(address, {"external_name": "crew"}, format="json"),
    ):
        assert response.status_code == 400
        (error,) = response.json()["errors"]
        assert error["path"] == "external_name"
        assert "Single sign-on with groups is not configured" in error["message"]
    assert list(group.users.all()) == [viewer]
    assert UserGroup.objects.count() == 1

    UserGroup.objects.filter(pk=group.pk).update(external_name="crew")
    assert client.patch(address, {"name": "Renamed"}, format="json").status_code == 200
    assert client.patch(address, {"external_name": ""}, format="json").status_code == 200
    assert list(group.users.all()) == [viewer]


def test_people_are_listed_where_one_may_see_them(
    admin: User, org_admin: User, viewer: User, stranger: User, deployer: User, call: Call
):
    def list_names(person: User, query: str = "") -> list[str]:
        users = call(person).get(f"/api/v1/users{query}").json()["results"]
        return sorted(entry["username"] for entry in users)

    assert list_names(admin) == ["admin", "deployer", "org_admin", "stranger", "viewer"]
    assert list_names(admin, "?search=OLG") == ["org_admin"]
    assert list_names(org_admin) == ["deployer", "org_admin", "viewer"]
    assert list_names(deployer) == []
    assert call(org_admin).get(f"/api/v1/users/{stranger.pk}").status_code == 404
    body = {"name": "Crew", "scope": "account/default", "users": [stranger.pk]}
    assert call(org_admin).post("/api/v1/user-groups", body, format="json").status_code == 400


def test_adding_to_a_resource_group_keeps_what_somebody_else_changed_meanwhile(admin: User, project: Scope):
    group = ResourceGroup.objects.create(scope=project, identifier="web", name="Web")
    read_earlier = ResourceGroup.objects.get(pk=group.pk)
    update_resource_group(actor=admin, group=group, name="Shop", description="", entries=[])

    add_resource_group_entries(actor=admin, group=read_earlier, entries=[("pipeline", "")])

    group.refresh_from_db()
    assert group.name == "Shop"
    assert group.entries.count() == 1
