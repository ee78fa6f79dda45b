"""Roles in the product: list of a scope, permissions in words, people and groups that have a role."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
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
