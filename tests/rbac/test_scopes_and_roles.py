"""The tree of scopes, the catalogue of permissions and the built-in roles."""

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from rbac.models import Role, RolePermission, Scope, User
from rbac.permissions import (
    ALWAYS_GRANTED,
    BUILTIN_ROLES,
    PERMISSIONS,
    ensure_builtin_roles,
    get_view_permission,
)
from rbac.policy import can
from tests.rbac.people import organization, project
from tests.secret_watch.marker import planted


@pytest.mark.django_db
def test_a_scope_knows_its_path_its_parents_and_its_names():
    demo = project("default/demo")

    assert demo.path == "account/default/demo"
    assert [scope.path for scope in demo.ancestors_and_self()] == [
        "account",
        "account/default",
        "account/default/demo",
    ]
    assert (demo.org, demo.project) == ("default", "demo")
    assert (organization("default").org, organization("default").project) == ("default", "")
    assert (Scope.objects.account().org, Scope.objects.account().project) == ("", "")


@pytest.mark.django_db
def test_a_tree_has_one_root_and_no_twins():
    for fields in (
        {"kind": Scope.Kind.ACCOUNT, "parent": None, "identifier": "account", "name": "Again"},
        {"kind": Scope.Kind.PROJECT, "parent": None, "identifier": "loose", "name": "Loose"},
        {"kind": Scope.Kind.ACCOUNT, "parent": Scope.objects.account(), "identifier": "a", "name": "A"},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Scope.objects.create(**fields)


@pytest.mark.parametrize("identifier", ["", "1st", "a-b", "a b", "a/b", "a\n", "é", "a" * 129])
def test_bad_identifiers_are_refused(identifier: str):
    scope = Scope(kind=Scope.Kind.ORGANIZATION, identifier=identifier, name="x")
    with pytest.raises(ValidationError):
        scope.clean_fields(exclude=["parent"])


@pytest.mark.django_db
def test_the_builtin_roles_are_there_after_migrating_and_are_the_catalogue():
    for builtin in BUILTIN_ROLES:
        role = Role.objects.get(identifier=builtin.identifier, scope=None)
        assert role.builtin
        assert set(role.permissions.values_list("permission", flat=True)) == builtin.permissions


@pytest.mark.django_db
def test_ensuring_builtin_roles_repairs_and_repeats():
    viewer = Role.objects.get(identifier="viewer", scope=None)
    viewer.permissions.filter(permission="core_pipeline_view").delete()
    RolePermission.objects.create(role=viewer, permission="core_secret_access")

    ensure_builtin_roles()
    ensure_builtin_roles()

    permissions = set(viewer.permissions.values_list("permission", flat=True))
    assert "core_pipeline_view" in permissions
    assert "core_secret_access" not in permissions


@pytest.mark.django_db
def test_a_role_takes_only_permissions_of_the_catalogue():
    role = Role.objects.create(identifier="mine", name="Mine", scope=project())
    with pytest.raises(ValidationError, match="core_pipeline_fly"):
        role.set_permissions(["core_pipeline_fly"])
    role.set_permissions(["core_pipeline_view", "core_file_view"])
    role.set_permissions(["core_file_view", "core_file_edit"])
    assert set(role.permissions.values_list("permission", flat=True)) == {"core_file_view", "core_file_edit"}


def test_the_catalogue_names_every_permission_of_the_specification():
    for identifier in (
        "core_delegate_edit",
        "core_delegateconfiguration_delete",
        "core_pipeline_execute",
        "core_pipeline_abort",
        "core_secret_access",
        "core_connector_access",
        "core_environment_rollback",
        "core_serviceaccount_manageapikey",
        "core_deploymentfreeze_override",
        "core_usergroup_manage",
        "core_audit_view",
        ALWAYS_GRANTED,
    ):
        assert identifier in PERMISSIONS


def test_every_permission_has_one_to_see_its_resource_by():
    assert get_view_permission("core_pipeline_execute") == "core_pipeline_view"
    assert get_view_permission("core_deploymentfreeze_manage") == "core_deploymentfreeze_manage"


def test_a_viewer_can_change_nothing_and_an_executor_only_runs():
    roles = {role.identifier: role.permissions for role in BUILTIN_ROLES}
    assert all(permission.endswith("_view") for permission in roles["viewer"])
    assert not [p for p in roles["pipeline_executor"] if p.endswith(("_edit", "_delete", "_manage"))]
    assert {"core_pipeline_execute", "core_connector_access", "core_secret_access"} <= roles[
        "pipeline_executor"
    ]


@pytest.mark.django_db
def test_a_superuser_is_someone_with_the_role_account_admin():
    boss = User.objects.create_superuser("boss", password=planted("correct horse battery"))

    assert boss.is_staff
    assert not boss.is_superuser
    assert can(boss, "core_role_edit", project())
    boss.assignments.all().delete()
    assert not can(boss, "core_role_edit", project())
    with pytest.raises(ValidationError, match="The user boss exists"):
        User.objects.create_superuser("Boss")
    with pytest.raises(ValidationError, match="means Slipway itself"):
        User.objects.create_superuser("Slipway")


def test_the_superuser_flag_cannot_be_set():
    with pytest.raises(TypeError, match="Account Admin"):
        User(username="x", is_superuser=True)
