"""Resource groups in the product: list, resources, creation, editing and deletion."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from pipelines.models import Pipeline
from rbac.models import AuditEntry, ResourceGroup, Role, RoleAssignment, Scope, User
from rbac.policy import can
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture
def web(project: Scope) -> ResourceGroup:
    return ResourceGroup.objects.create(scope=project, identifier="web", name="Web")


@pytest.fixture
def pipeline(project: Scope) -> Pipeline:
    return Pipeline.objects.create(scope=project, identifier="shop", name="Shop", yaml="")


def limit_role(person: User, role: str, group: ResourceGroup) -> RoleAssignment:
    role_row = Role.objects.get(identifier=role, scope=None)
    return RoleAssignment.objects.create(user=person, role=role_row, scope=group.scope, resource_group=group)


def read_text(browser: Client, name: str, *args: int, query: str = "") -> str:
    response = browser.get(reverse(name, args=args) + query)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def list_entries(group: ResourceGroup) -> set[tuple[str, str]]:
    return set(group.entries.values_list("resource", "identifier"))


def test_groups_of_the_chosen_scope_are_listed_with_resources_and_assignments(
    admin: User, viewer: User, web: ResourceGroup, other_project: Scope, browse: Browse
) -> None:
    ResourceGroup.objects.create(scope=other_project, identifier="else", name="Elsewhere")
    for resource, identifier in (("pipeline", "shop"), ("service", ""), ("secret", "a"), ("secret", "b")):
        web.entries.create(resource=resource, identifier=identifier)
    limit_role(viewer, "viewer", web)
    browser, scope = browse(admin), f"?scope={web.scope.path}"
    content = read_text(browser, "resource-groups", query=scope)
    assert "Web web Pipeline shop Secret a Secret b 1 more 1 account/default/demo" in content
    assert "Elsewhere" not in content
    assert "No matching resource groups" in read_text(browser, "resource-groups", query="?show=unused")
    assert "Elsewhere" in read_text(browser, "resource-groups", query=f"?scope={other_project.path}")


def test_a_group_is_created_edited_and_deleted(
    org_admin: User, project: Scope, pipeline: Pipeline, browse: Browse
) -> None:
    browser = browse(org_admin)
    assert "No resource groups to show in this scope" in read_text(browser, "resource-groups")
    form = {"in_scope": project.path, "name": "Shop team", "types": ["service"]}
    response = browser.post(reverse("new-resource-group"), form)
    group = ResourceGroup.objects.get(identifier="Shop_team")
    assert response["Location"] == reverse("resource-group", args=[group.pk])
    assert "All services" in read_text(browser, "resource-group", group.pk)

    group.entries.create(resource="pipeline", identifier=pipeline.identifier)
    change = {"name": "Shop", "description": "Of the shop", "types": ["secret"], "version": 1}
    browser.post(reverse("edit-resource-group", args=[group.pk]), change)
    group.refresh_from_db()
    assert (group.name, group.description) == ("Shop", "Of the shop")
    assert list_entries(group) == {("secret", ""), ("pipeline", "shop")}

    assert "No role is limited to this group." in read_text(browser, "delete-resource-group", group.pk)
    response = browser.post(reverse("delete-resource-group", args=[group.pk]))
    assert response["Location"] == reverse("resource-groups")
    actions = AuditEntry.objects.filter(actor=org_admin).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["resourcegroup.create", "resourcegroup.update", "resourcegroup.delete"]


def test_an_edit_does_not_undo_what_somebody_added_meanwhile(
    org_admin: User, web: ResourceGroup, pipeline: Pipeline, browse: Browse
) -> None:
    browser, address = browse(org_admin), reverse("edit-resource-group", args=[web.pk])
    assert 'name="version" value="1"' in browser.get(address).content.decode()
    browser.post(reverse("add-group-resources", args=[web.pk]), {"entries": ["shop"]})

    change = {"name": "Shop", "description": "", "types": ["secret"], "version": 1}
    response = browser.post(address, change)
    assert response.status_code == 409
    assert "Someone else saved a newer version" in response.content.decode()
    assert browser.post(address, change | {"version": 2}).status_code == 302
    assert list_entries(web) == {("pipeline", "shop"), ("secret", "")}


def test_resources_are_found_by_search_added_and_removed(
    org_admin: User, viewer: User, web: ResourceGroup, pipeline: Pipeline, browse: Browse
) -> None:
    Pipeline.objects.create(scope=web.scope, identifier="other", name="Other", yaml="")
    assignment = limit_role(make_person("runner"), "pipeline_executor", web)
    browser, address = browse(org_admin), reverse("add-group-resources", args=[web.pk])
    found = browser.get(address + "?q=SHO").content.decode()
    assert 'value="shop"' in found
    assert 'value="other"' not in found
    assert browser.post(address, {"entries": ["shop"]})["Location"] == reverse(
        "resource-group", args=[web.pk]
    )
    runner = User.objects.get(username="runner")
    assert can(runner, "core_pipeline_execute", pipeline)
    assert 'value="shop"' not in browser.get(address).content.decode()

    entry = web.entries.get()
    question = read_text(browser, "remove-group-resource", web.pk, entry.pk)
    assert "Remove pipeline shop from Web?" in question
    assert f"runner in project {web.scope.name}" in question
    browser.post(reverse("remove-group-resource", args=[web.pk, entry.pk]))
    assert not can(User.objects.get(pk=runner.pk), "core_pipeline_execute", pipeline)
    assert RoleAssignment.objects.filter(pk=assignment.pk).exists()
    assert browser.get(reverse("remove-group-resource", args=[web.pk, entry.pk])).status_code == 404


def test_every_type_with_identifiers_can_be_chosen_from(
    admin: User, web: ResourceGroup, browse: Browse
) -> None:
    browser = browse(admin)
    content = browser.get(reverse("add-group-resources", args=[web.pk])).content.decode()
    kinds = re.findall(r'<option value="(\w+)"', content[content.index('name="kind"') :])
    assert {"pipeline", "inputset", "secret", "file", "delegate"} <= set(kinds)
    for kind in dict.fromkeys(kinds):
        read_text(browser, "add-group-resources", web.pk, query=f"?kind={kind}&q=a")


def test_resources_out_of_sight_or_elsewhere_cannot_be_added(
    org_admin: User, web: ResourceGroup, other_project: Scope, browse: Browse
) -> None:
    Pipeline.objects.create(scope=other_project, identifier="foreign", name="Foreign", yaml="")
    browser, address = browse(org_admin), reverse("add-group-resources", args=[web.pk])
    assert "foreign" not in browser.get(address + "?q=for").content.decode().partition("checkbox")[2]
    for entries in (["foreign"], []):
        assert browser.post(address, {"entries": entries}).status_code == 400
    assert not web.entries.exists()


def test_nobody_adds_resources_to_a_role_with_more_permissions_than_their_own(
    org_admin: User, web: ResourceGroup, pipeline: Pipeline, browse: Browse
) -> None:
    limit_role(make_person("boss"), "account_admin", web)
    browser = browse(org_admin)
    response = browser.post(reverse("add-group-resources", args=[web.pk]), {"entries": ["shop"]})
    assert response.status_code == 400
    assert "which you do not have there" in response.content.decode()
    change = {"name": "Web", "types": ["secret"], "version": 1}
    assert browser.post(reverse("edit-resource-group", args=[web.pk]), change).status_code == 400
    assert not web.entries.exists()


def test_a_deletion_names_who_loses_a_role_and_removes_the_assignments(
    org_admin: User, web: ResourceGroup, browse: Browse
) -> None:
    limit_role(make_person("runner"), "pipeline_executor", web)
    browser, address = browse(org_admin), reverse("delete-resource-group", args=[web.pk])
    assert f"runner in project {web.scope.name}" in read_text(browser, "delete-resource-group", web.pk)
    assert browser.post(address).status_code == 400
    assert browser.post(address, {"although_used": "on"}).status_code == 302
    assert not ResourceGroup.objects.filter(pk=web.pk).exists()
    assert not RoleAssignment.objects.filter(user__username="runner").exists()


def test_a_viewer_sees_groups_without_actions(
    viewer: User, web: ResourceGroup, other_project: Scope, browse: Browse
) -> None:
    browser = browse(viewer)
    content = browser.get(reverse("resource-group", args=[web.pk])).content.decode()
    for name in ("edit-resource-group", "delete-resource-group", "add-group-resources"):
        address = reverse(name, args=[web.pk])
        assert address not in content
        assert browser.post(address, {"name": "Mine"}).status_code == 403
    foreign = ResourceGroup.objects.create(scope=other_project, identifier="else", name="Elsewhere")
    assert browser.get(reverse("resource-group", args=[foreign.pk])).status_code == 404
