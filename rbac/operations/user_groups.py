"""Operations on user groups."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from rbac import audit
from rbac.models import Scope, User, UserGroup
from rbac.operations.escalation_checks import refuse_role_escalation, require_permission
from rbac.operations.identifiers import build_unique_identifier
from rbac.operations.last_administrator import keep_account_administrator
from rbac.operations.roles import describe_archived_assignments
from rbac.operations.row_locks import lock_row

MANAGE_USER_GROUPS = "core_usergroup_manage"
MEMBERS_FROM_PROVIDER = "The members of this group come from the single sign-on provider. Change them there."
NO_PROVIDER_GROUPS = (
    "Single sign-on with groups is not configured, so nobody could become a member. Set OIDC_ISSUER and "
    "OIDC_GROUPS_CLAIM first."
)


def has_provider_groups() -> bool:
    """Return whether single sign-on is configured and names the groups of its users."""
    return bool(settings.OIDC_ISSUER and settings.OIDC_GROUPS_CLAIM)


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
    """Create a group for roles at `scope` and below.

    Single sign-on manages the members of a group with an `external_name`. Without an `identifier` it is
    derived from the name. Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_permission(actor, MANAGE_USER_GROUPS, scope)
    if external_name:
        _require_provider_groups()
    siblings, members = UserGroup.objects.filter(scope=scope), list(users)
    group = UserGroup(scope=scope, name=name, external_name=external_name)
    group.identifier = identifier or build_unique_identifier(name, siblings, "group")
    group.full_clean(validate_constraints=False)
    _validate_members(group, are_changed=bool(members))
    _save(group)
    group.users.set(members)
    audit.record_audit_entry(
        actor=actor, action="usergroup.create", thing=group, after=_build_audit_values(group)
    )
    return group


@transaction.atomic
@keep_account_administrator()
def update_user_group(
    *,
    actor: User | None,
    group: UserGroup,
    name: str | None = None,
    external_name: str | None = None,
    users: Iterable[User] | None = None,
) -> UserGroup:
    """Update name and members of a group; what is None stays as it is stored.

    A new `external_name` removes all members: the next sign-on adds those whom the provider names. Members
    receive the group's roles, so the actor needs all their permissions. Raises `ValidationError`, also for
    the last account administrator, `Forbidden`, `NotVisible`.
    """
    require_permission(actor, MANAGE_USER_GROUPS, group.scope)
    stored, members = lock_row(group), None if users is None else list(users)
    before = _build_audit_values(stored)
    name = stored.name if name is None else name
    external_name = stored.external_name if external_name is None else external_name
    changed = members is not None and {user.pk for user in members} != set(
        group.users.values_list("pk", flat=True)
    )
    is_linked_anew = external_name not in ("", stored.external_name)
    if changed or external_name != stored.external_name:
        refuse_role_escalation(actor, group.assignments.all())
    if is_linked_anew:
        _require_provider_groups()
    group.name, group.external_name, group.version = name, external_name, stored.version + 1
    group.full_clean(validate_constraints=False)
    # A new link removes the members anyway.
    _validate_members(group, are_changed=changed and (bool(members) or not is_linked_anew))
    _save(group, fields=["name", "external_name", "version"])
    if is_linked_anew:
        group.users.clear()
    elif changed and members is not None:
        group.users.set(members)
    audit.record_audit_entry(
        actor=actor, action="usergroup.update", thing=group, before=before, after=_build_audit_values(group)
    )
    return group


@transaction.atomic
def add_group_members(*, actor: User | None, group: UserGroup, users: Collection[User]) -> None:
    """Add users to a group; changes by others at the same time stay.

    Raises `ValidationError` for a group of the single sign-on provider, `Forbidden`, `NotVisible`.
    """
    _change_members(actor, group, lambda: group.users.add(*users))


@transaction.atomic
@keep_account_administrator()
def remove_group_member(*, actor: User | None, group: UserGroup, user: User) -> None:
    """Remove a user from a group.

    Raises `ValidationError` for a group of the single sign-on provider and for the last account
    administrator, `Forbidden`, `NotVisible`.
    """
    _change_members(actor, group, lambda: group.users.remove(user))


def _change_members(actor: User | None, group: UserGroup, change: Callable[[], None]) -> None:
    """Change the members with the checks and the audit entry of `update_user_group`."""
    require_permission(actor, MANAGE_USER_GROUPS, group.scope)
    # Somebody may link it to the provider at the same time, which removes all members.
    stored = lock_row(group)
    refuse_role_escalation(actor, group.assignments.all())
    if stored.external_name:
        raise ValidationError({"users": MEMBERS_FROM_PROVIDER})
    before = _build_audit_values(stored)
    change()
    after = _build_audit_values(stored)
    if after != before:
        audit.record_audit_entry(
            actor=actor, action="usergroup.update", thing=group, before=before, after=after
        )


@transaction.atomic
def delete_user_group(*, actor: User | None, group: UserGroup) -> None:
    """Delete a group that has no role."""
    require_permission(actor, MANAGE_USER_GROUPS, group.scope)
    # From here on, nobody can give it a role.
    lock_row(group)
    if archived := describe_archived_assignments(group.assignments.all()):
        raise ValidationError(archived, code="state")
    if group.assignments.exists():
        raise ValidationError("This group has roles. Remove their assignments first.")
    audit.record_audit_entry(
        actor=actor, action="usergroup.delete", thing=group, before=_build_audit_values(group)
    )
    group.delete()


def _require_provider_groups() -> None:
    """Refuse a link to a group that no sign-on names: its members could never return."""
    if not has_provider_groups():
        raise ValidationError({"external_name": NO_PROVIDER_GROUPS})


def _save(group: UserGroup, fields: list[str] | None = None) -> None:
    """Save a group. Raises `ValidationError` if another one has its provider group or its identifier."""
    try:
        with transaction.atomic():
            group.save(update_fields=fields)
    except IntegrityError as exc:
        _require_free_external_name(group)
        taken = f"A user group {group.identifier} already exists."
        raise ValidationError({"identifier": taken}) from exc


def _require_free_external_name(group: UserGroup) -> None:
    same = UserGroup.objects.filter(external_name=group.external_name).exclude(pk=group.pk)
    if group.external_name and same.exists():
        raise ValidationError(
            {"external_name": ("Another user group is already linked to this provider group.")}
        )


def _validate_members(group: UserGroup, *, are_changed: bool) -> None:
    if not group.external_name:
        return
    _require_free_external_name(group)
    if are_changed:
        raise ValidationError({"users": MEMBERS_FROM_PROVIDER})


def _build_audit_values(group: UserGroup) -> dict[str, Any]:
    return {
        "identifier": group.identifier,
        "name": group.name,
        "external_name": group.external_name,
        "users": sorted(group.users.values_list("username", flat=True)),
    }
