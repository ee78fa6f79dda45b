"""Every named page of people, groups and roles, with all that can be asked of it."""

from typing import Any

from rbac.models import Role
from tests.api.requests import Ask, Row, allow_get, get, list_granted_permissions, use_key_of
from tests.api.required_access import ACCOUNT, HERE, Anywhere, Lists, Makes, Needs, SignedIn
from tests.api.sample_project import World

VIEW, MANAGE = "core_user_view", "core_user_manage"
VIEW_GROUPS, MANAGE_GROUPS = "core_usergroup_view", "core_usergroup_manage"
EDIT_ROLES = "core_role_edit"
VIEW_RESOURCES, EDIT_RESOURCES = "core_resourcegroup_view", "core_resourcegroup_edit"
PERSON, GROUP = use_key_of("member"), use_key_of("user_group")
ROLE, RESOURCE_GROUP = use_key_of("role"), use_key_of("resource_group")
# Users belong to the account: who sees a person here needs the permission there.
AS_ADMINISTRATOR = Needs(MANAGE, seen_by=VIEW, granted_at=ACCOUNT)
# The member of the world is an account admin: others lack permissions of theirs, and nobody disables oneself.
OF_ONESELF = Needs(
    MANAGE, 409, seen_by=VIEW, granted_at=ACCOUNT, also=list_granted_permissions("account_admin")
)


def role_form(world: World) -> dict[str, Any]:
    return {"in_scope": HERE, "role": Role.objects.get(identifier="viewer", scope=None).pk}


def new_group_form(world: World) -> dict[str, Any]:
    return {"in_scope": HERE, "name": "Made here"}


def group_form(world: World) -> dict[str, Any]:
    return {"name": "Changed", "version": 1}


def member_form(world: World) -> dict[str, Any]:
    return {"users": [world.member.pk]}


def membership(world: World) -> dict[str, Any]:
    return {"pk": world.user_group.pk, "user": world.member.pk}


def role_change_form(world: World) -> dict[str, Any]:
    return {"name": "Changed", "permissions": ["core_pipeline_view"], "version": 1}


def agreement(world: World) -> dict[str, Any]:
    return {"although_used": "on"}


def resource_group_form(world: World) -> dict[str, Any]:
    return {"name": "Changed", "types": ["service"], "version": 1}


def resources_form(world: World) -> dict[str, Any]:
    return {"entries": [world.pipeline.identifier]}


def group_resource(world: World) -> dict[str, Any]:
    return {"pk": world.resource_group.pk, "entry": world.resource_group.entries.get().pk}


def build_person_row(action: Needs) -> Row:
    return Row((get(AS_ADMINISTRATOR), Ask("post", action, is_form=True)), PERSON)


PEOPLE_PAGES: dict[str, Row] = {
    "people": Row(
        (
            get(Lists(VIEW)),
            get(Lists(VIEW, sign=""), "?q=a&show=no-second-factor&sort=name&density=compact"),
        )
    ),
    "person": allow_get(Needs(VIEW), PERSON),
    "disable-user": build_person_row(OF_ONESELF),
    "enable-user": build_person_row(OF_ONESELF),
    "reset-second-factor": build_person_row(OF_ONESELF),
    "assign-role-to-person": Row(
        (get(Needs(MANAGE)), Ask("post", Needs(MANAGE, 302), body=role_form, is_form=True)), PERSON
    ),
    "remove-role-assignment": Row(
        (get(Needs(MANAGE)), Ask("post", Needs(MANAGE, 302), is_form=True)), use_key_of("assignment")
    ),
    "who-can": Row((get(SignedIn()), get(SignedIn(), "?action=core_audit_view"))),
    "user-groups": Row(
        (get(Lists(VIEW_GROUPS)), get(Lists(VIEW_GROUPS, sign=""), "?q=a&show=single-sign-on&sort=name"))
    ),
    "new-user-group": Row(
        (
            get(Anywhere(MANAGE_GROUPS)),
            Ask("post", Makes(MANAGE_GROUPS), body=new_group_form, is_form=True),
        )
    ),
    "user-group": allow_get(Needs(VIEW_GROUPS), GROUP),
    "edit-user-group": Row(
        (
            get(Needs(MANAGE_GROUPS)),
            Ask("post", Needs(MANAGE_GROUPS, 302), body=group_form, is_form=True),
        ),
        GROUP,
    ),
    "delete-user-group": Row(
        (get(Needs(MANAGE_GROUPS)), Ask("post", Needs(MANAGE_GROUPS, 302), is_form=True)), GROUP
    ),
    "add-group-members": Row(
        (
            get(Needs(MANAGE_GROUPS)),
            # The member is one already, and cannot be selected.
            Ask("post", Needs(MANAGE_GROUPS, 400), body=member_form, is_form=True),
        ),
        GROUP,
    ),
    "remove-group-member": Row(
        (get(Needs(MANAGE_GROUPS)), Ask("post", Needs(MANAGE_GROUPS, 302), is_form=True)), membership
    ),
    "assign-role-to-group": Row(
        (
            get(Needs(MANAGE, seen_by=VIEW_GROUPS)),
            Ask("post", Needs(MANAGE, 302, seen_by=VIEW_GROUPS), body=role_form, is_form=True),
        ),
        GROUP,
    ),
    "assign-role-to-service-account": Row(
        (
            get(Needs(MANAGE, seen_by="core_serviceaccount_view")),
            Ask("post", Needs(MANAGE, 302, seen_by="core_serviceaccount_view"), body=role_form, is_form=True),
        ),
        use_key_of("service_account"),
    ),
    "roles": Row((get(Lists("core_role_view")), get(Lists("core_role_view"), "?show=custom&sort=name"))),
    "role": allow_get(Needs("core_role_view"), ROLE),
    "new-role": Row(
        (
            get(Anywhere(EDIT_ROLES)),
            get(Anywhere(EDIT_ROLES), "?copy=1"),
            Ask("post", Makes(EDIT_ROLES), body=new_group_form, is_form=True),
        )
    ),
    "edit-role": Row(
        (
            get(Needs(EDIT_ROLES)),
            Ask("post", Needs(EDIT_ROLES, 302), body=role_change_form, is_form=True),
        ),
        ROLE,
    ),
    "delete-role": Row(
        (
            get(Needs("core_role_delete")),
            Ask("post", Needs("core_role_delete", 400), is_form=True),
            # A pending invitation uses it.
            Ask("post", Needs("core_role_delete", 409), body=agreement, is_form=True),
        ),
        ROLE,
    ),
    "resource-groups": Row(
        (get(Lists(VIEW_RESOURCES)), get(Lists(VIEW_RESOURCES, sign=""), "?show=used&q=a"))
    ),
    "resource-group": allow_get(Needs(VIEW_RESOURCES), RESOURCE_GROUP),
    "new-resource-group": Row(
        (
            get(Anywhere(EDIT_RESOURCES)),
            Ask("post", Makes(EDIT_RESOURCES), body=new_group_form, is_form=True),
        )
    ),
    "edit-resource-group": Row(
        (
            get(Needs(EDIT_RESOURCES)),
            Ask("post", Needs(EDIT_RESOURCES, 302), body=resource_group_form, is_form=True),
        ),
        RESOURCE_GROUP,
    ),
    "delete-resource-group": Row(
        (
            get(Needs("core_resourcegroup_delete")),
            Ask("post", Needs("core_resourcegroup_delete", 302), is_form=True),
        ),
        RESOURCE_GROUP,
    ),
    "add-group-resources": Row(
        (
            get(Needs(EDIT_RESOURCES)),
            get(Needs(EDIT_RESOURCES), "?kind=inputset&q=a"),
            Ask("post", Needs(EDIT_RESOURCES, 302), body=resources_form, is_form=True),
        ),
        RESOURCE_GROUP,
    ),
    "remove-group-resource": Row(
        (get(Needs(EDIT_RESOURCES)), Ask("post", Needs(EDIT_RESOURCES, 302), is_form=True)), group_resource
    ),
}
