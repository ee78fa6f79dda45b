"""What a person can do to roles."""

from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Role, Scope, User
from rbac.models.role import known_permission
from rbac.operations.asking import refuse_more_than_own, require_of
from rbac.operations.identifiers import save_new
from rbac.permissions import ALWAYS_GRANTED, BUILTIN_ROLES

_BUILTIN = frozenset(role.identifier for role in BUILTIN_ROLES)


@transaction.atomic
def create_role(
    *, actor: User | None, scope: Scope, identifier: str, name: str, permissions: Iterable[str]
) -> Role:
    """Add a role that can be assigned at `scope` and below, of permissions that the actor has there."""
    require_of(actor, "core_role_edit", scope)
    wanted = _known(permissions) | {ALWAYS_GRANTED}
    refuse_more_than_own(actor, wanted, scope)
    if identifier in _BUILTIN:
        raise ValidationError({"identifier": f"{identifier} is a built-in role. Choose another identifier."})
    role = Role(scope=scope, identifier=identifier, name=name)
    role.full_clean()
    save_new(role, ValidationError({"identifier": f"There is a role {identifier} already."}))
    role.set_permissions(wanted)
    audit.record(actor=actor, action="role.create", thing=role, after=_role_record(name, wanted))
    return role


@transaction.atomic
def update_role(*, actor: User | None, role: Role, name: str, permissions: Iterable[str]) -> Role:
    """Change a role's name and permissions: not those of a built-in role, and never Delegate View (R080).

    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    scope = _own_scope(role)
    require_of(actor, "core_role_edit", scope)
    wanted = _known(permissions)
    present = set(role.permissions.values_list("permission", flat=True))
    if ALWAYS_GRANTED in present - wanted:
        raise ValidationError(
            {"permissions": f"{ALWAYS_GRANTED} cannot be taken from a role: everybody has it."}
        )
    refuse_more_than_own(actor, wanted - present, scope)
    before, role.name = role.name, name
    role.full_clean()
    role.save(update_fields=["name"])
    role.set_permissions(wanted)
    audit.record(
        actor=actor,
        action="role.update",
        thing=role,
        before=_role_record(before, present),
        after=_role_record(name, wanted),
    )
    return role


@transaction.atomic
def delete_role(*, actor: User | None, role: Role) -> None:
    """Delete a role that nobody has."""
    require_of(actor, "core_role_delete", _own_scope(role))
    if role.assignments.exists():
        raise ValidationError("This role is assigned. Remove its assignments first.", code="state")
    invitations = role.invitations.all()
    if any(invitation.is_waiting for invitation in invitations):
        raise ValidationError(
            "Somebody is invited with this role. Take the invitation back first.", code="state"
        )
    # What came of the others is in the audit trail.
    invitations.delete()
    before = _role_record(role.name, role.permissions.values_list("permission", flat=True))
    audit.record(actor=actor, action="role.delete", thing=role, before=before)
    role.delete()


def _known(permissions: Iterable[str]) -> set[str]:
    wanted = set(permissions)
    for permission in wanted:
        known_permission(permission)
    return wanted


def _own_scope(role: Role) -> Scope:
    if role.scope is None:
        raise ValidationError("Built-in roles cannot be changed.", code="state")
    return role.scope


def _role_record(name: str, permissions: Iterable[str]) -> dict[str, object]:
    return {"name": name, "permissions": sorted(permissions)}
