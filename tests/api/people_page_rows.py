"""Every named page of people, groups and roles, with all that can be asked of it."""

from typing import Any

from rbac.models import Role
from tests.api.requests import Ask, Row, allow_get, get, list_granted_permissions, use_key_of
from tests.api.required_access import ACCOUNT, HERE, Anywhere, Lists, Makes, Needs, SignedIn
from tests.api.sample_project import World

VIEW, MANAGE = "core_user_view", "core_user_manage"
VIEW_GROUPS, MANAGE_GROUPS = "core_usergroup_view", "core_usergroup_manage"
PERSON, GROUP = use_key_of("member"), use_key_of("user_group")
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
    return {"name": "Changed"}


def member_form(world: World) -> dict[str, Any]:
    return {"users": [world.member.pk]}


def membership(world: World) -> dict[str, Any]:
    return {"pk": world.user_group.pk, "user": world.member.pk}


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
    "role": allow_get(Needs("core_role_view"), use_key_of("role")),
}
