"""What a person can do to groups of people."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Scope, User, UserGroup
from rbac.operations.asking import refuse_more_than_own_roles, require_of
from rbac.operations.identifiers import identifier_of, save_new

MANAGE = "core_usergroup_manage"


@transaction.atomic
def create_user_group(
    *,
    actor: User | None,
    scope: Scope,
    name: str,
    identifier: str = "",
    users: Iterable[User] = (),
    external_name: str = "",
) -> UserGroup:
    """Add a group that roles at `scope` and below can be given to.

    One with an `external_name` has exactly the members that the single sign-on provider says.
    Without an `identifier` it gets one that is made of its name.
    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_of(actor, MANAGE, scope)
    here, members = UserGroup.objects.filter(scope=scope), list(users)
    group = UserGroup(scope=scope, name=name, external_name=external_name)
    group.identifier = identifier or identifier_of(name, here, "group")
    group.full_clean(validate_constraints=False)
    _check_members(group, members)
    save_new(group, ValidationError({"identifier": f"There is a group {group.identifier} already."}))
    group.users.set(members)
    audit.record(actor=actor, action="usergroup.create", thing=group, after=_record(group))
    return group


@transaction.atomic
def update_user_group(
    *, actor: User | None, group: UserGroup, name: str, users: Iterable[User], external_name: str
) -> UserGroup:
    """Change what a group is called and who is in it.

    Who decides about the members hands out what the group has, so they need every permission of its roles.
    """
    require_of(actor, MANAGE, group.scope)
    stored, members = UserGroup.objects.get(pk=group.pk), list(users)
    before = _record(stored)
    changed = {user.pk for user in members} != set(group.users.values_list("pk", flat=True))
    if changed or external_name != stored.external_name:
        refuse_more_than_own_roles(actor, group.assignments.all())
    group.name, group.external_name = name, external_name
    group.full_clean(validate_constraints=False)
    _check_members(group, members if changed else [])
    group.save(update_fields=["name", "external_name"])
    group.users.set(members)
    audit.record(actor=actor, action="usergroup.update", thing=group, before=before, after=_record(group))
    return group


@transaction.atomic
def delete_user_group(*, actor: User | None, group: UserGroup) -> None:
    """Delete a group that has no role."""
    require_of(actor, MANAGE, group.scope)
    if group.assignments.exists():
        raise ValidationError("This group has roles. Remove their assignments first.")
    audit.record(actor=actor, action="usergroup.delete", thing=group, before=_record(group))
    group.delete()


def _check_members(group: UserGroup, changed: list[User]) -> None:
    if not group.external_name:
        return
    same = UserGroup.objects.filter(external_name=group.external_name).exclude(pk=group.pk)
    if same.exists():
        raise ValidationError({"external_name": "Another group follows this one of the provider already."})
    if changed:
        message = "Its members are those that the single sign-on provider says. Change them there."
        raise ValidationError({"users": message})


def _record(group: UserGroup) -> dict[str, Any]:
    return {
        "identifier": group.identifier,
        "name": group.name,
        "external_name": group.external_name,
        "users": sorted(group.users.values_list("username", flat=True)),
    }
