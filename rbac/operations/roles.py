"""Operations on roles."""

from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Role, Scope, User
from rbac.models.roles import validate_permission
from rbac.operations.escalation_checks import refuse_escalation, require_permission
from rbac.operations.identifiers import create_unique
from rbac.permissions import ALWAYS_GRANTED, BUILTIN_ROLES

_BUILTIN = frozenset(role.identifier for role in BUILTIN_ROLES)


@transaction.atomic
def create_role(
    *, actor: User | None, scope: Scope, identifier: str, name: str, permissions: Iterable[str]
) -> Role:
    """Add a role that can be assigned at `scope` and below, of permissions that the actor has there."""
    require_permission(actor, "core_role_edit", scope)
    wanted = _validate_permissions(permissions) | {ALWAYS_GRANTED}
    refuse_escalation(actor, wanted, scope)
    if identifier in _BUILTIN:
        raise ValidationError({"identifier": f"{identifier} is a built-in role. Choose another identifier."})
    role = Role(scope=scope, identifier=identifier, name=name)
    role.full_clean()
    create_unique(role, ValidationError({"identifier": f"There is a role {identifier} already."}))
    role.set_permissions(wanted)
    audit.record_audit_entry(
        actor=actor, action="role.create", thing=role, after=_build_audit_values(name, wanted)
    )
    return role


@transaction.atomic
def update_role(*, actor: User | None, role: Role, name: str, permissions: Iterable[str]) -> Role:
    """Change a role's name and permissions: not those of a built-in role, and never Delegate View (R080).

    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    scope = _get_own_scope(role)
    require_permission(actor, "core_role_edit", scope)
    wanted = _validate_permissions(permissions)
    present = set(role.permissions.values_list("permission", flat=True))
    if ALWAYS_GRANTED in present - wanted:
        raise ValidationError(
            {"permissions": f"{ALWAYS_GRANTED} cannot be taken from a role: everybody has it."}
        )
    refuse_escalation(actor, wanted - present, scope)
    before, role.name = role.name, name
    role.full_clean()
    role.save(update_fields=["name"])
    role.set_permissions(wanted)
    audit.record_audit_entry(
        actor=actor,
        action="role.update",
        thing=role,
        before=_build_audit_values(before, present),
        after=_build_audit_values(name, wanted),
    )
    return role


@transaction.atomic
def delete_role(*, actor: User | None, role: Role) -> None:
    """Delete a role that nobody has."""
    require_permission(actor, "core_role_delete", _get_own_scope(role))
    if role.assignments.exists():
        raise ValidationError("This role is assigned. Remove its assignments first.", code="state")
    invitations = role.invitations.all()
    if any(invitation.is_waiting for invitation in invitations):
        raise ValidationError(
            "Somebody is invited with this role. Take the invitation back first.", code="state"
        )
    # What came of the others is in the audit trail.
    invitations.delete()
    before = _build_audit_values(role.name, role.permissions.values_list("permission", flat=True))
    audit.record_audit_entry(actor=actor, action="role.delete", thing=role, before=before)
    role.delete()


def _validate_permissions(permissions: Iterable[str]) -> set[str]:
    wanted = set(permissions)
    for permission in wanted:
        validate_permission(permission)
    return wanted


def _get_own_scope(role: Role) -> Scope:
    if role.scope is None:
        raise ValidationError("Built-in roles cannot be changed.", code="state")
    return role.scope


def _build_audit_values(name: str, permissions: Iterable[str]) -> dict[str, object]:
    return {"name": name, "permissions": sorted(permissions)}
