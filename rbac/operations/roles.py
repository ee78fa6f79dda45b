"""Operations on roles and role assignments."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from rbac import audit
from rbac.models import Invitation, ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.models.roles import validate_permission
from rbac.operations.escalation_checks import list_granted, refuse_escalation, require_permission
from rbac.operations.identifiers import create_unique
from rbac.operations.last_administrator import keep_account_administrator
from rbac.operations.row_locks import lock_granted, lock_row
from rbac.permissions import ALWAYS_GRANTED, BUILTIN_ROLES
from rbac.policy import (
    build_not_archived_filter,
    cache_permissions,
    find_archived_scope,
    get_nearest_active_scope,
    require,
)

INVITATION_PENDING = "A pending invitation uses this role. Revoke the invitation first."
RESTORE_FOR_INVITATION: Final = (
    "Restore {path} first: a pending invitation there uses this role. It cannot be revoked while the scope is"
    " archived."
)
_BUILTIN = frozenset(role.identifier for role in BUILTIN_ROLES)


@transaction.atomic
def create_role(
    *, actor: User | None, scope: Scope, identifier: str, name: str, permissions: Iterable[str]
) -> Role:
    """Create a role for `scope` and below; the actor must have all its permissions there."""
    require_permission(actor, "core_role_edit", scope)
    permission_set = _validate_permissions(permissions) | {ALWAYS_GRANTED}
    refuse_escalation(actor, permission_set, scope)
    if identifier in _BUILTIN:
        raise ValidationError({"identifier": f"{identifier} is a built-in role. Choose another identifier."})
    role = Role(scope=scope, identifier=identifier, name=name)
    role.full_clean(validate_constraints=False)
    create_unique(role, ValidationError({"identifier": f"A role {identifier} already exists."}))
    role.set_permissions(permission_set)
    audit.record_audit_entry(
        actor=actor, action="role.create", thing=role, after=_build_audit_values(name, permission_set)
    )
    return role


@transaction.atomic
def update_role(*, actor: User | None, role: Role, name: str, permissions: Iterable[str]) -> Role:
    """Change a role's name and permissions: not those of a built-in role, and never Delegate View (R080).

    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    scope = _get_own_scope(role)
    require_permission(actor, "core_role_edit", scope)
    permission_set, stored = _validate_permissions(permissions), lock_row(role)
    present = set(role.permissions.values_list("permission", flat=True))
    if ALWAYS_GRANTED in present - permission_set:
        raise ValidationError(
            {"permissions": f"{ALWAYS_GRANTED} cannot be removed from a role: it is always granted."}
        )
    refuse_escalation(actor, permission_set - present, scope)
    role.name, role.version = name, stored.version + 1
    role.full_clean()
    role.save(update_fields=["name", "version"])
    role.set_permissions(permission_set)
    audit.record_audit_entry(
        actor=actor,
        action="role.update",
        thing=role,
        before=_build_audit_values(stored.name, present),
        after=_build_audit_values(name, permission_set),
    )
    return role


@transaction.atomic
def delete_role(*, actor: User | None, role: Role, although_used: bool = False) -> None:
    """Delete a role.

    With `although_used` its assignments are removed, which needs the permissions to remove each. Without, an
    assigned role raises `ValidationError`.
    """
    require_permission(actor, "core_role_delete", _get_own_scope(role))
    # From here on, nobody can assign it or invite to it.
    lock_row(role)
    if although_used:
        remove_assignments(actor, role.assignments.all())
    if role.assignments.exists():
        raise ValidationError("This role is assigned. Remove its assignments first.", code="state")
    if has_pending_invitation(role):
        raise ValidationError(INVITATION_PENDING, code="state")
    if archived := describe_archived_invitations(role):
        raise ValidationError(archived, code="state")
    # The audit trail has the results of the others.
    role.invitations.all().delete()
    before = _build_audit_values(role.name, role.permissions.values_list("permission", flat=True))
    audit.record_audit_entry(actor=actor, action="role.delete", thing=role, before=before)
    role.delete()


def has_pending_invitation(role: Role) -> bool:
    """Return whether an invitation that uses the role can be accepted, or sent again, and be revoked."""
    return any(
        find_archived_scope(invitation.scope) is None for invitation in _list_pending_invitations(role)
    )


def describe_archived_invitations(role: Role) -> str:
    """Return which scope must be restored before all pending invitations can be revoked, or ""."""
    scopes = (find_archived_scope(invitation.scope) for invitation in _list_pending_invitations(role))
    archived = next((scope for scope in scopes if scope is not None), None)
    return RESTORE_FOR_INVITATION.format(path=archived.path) if archived is not None else ""


def _list_pending_invitations(role: Role) -> list[Invitation]:
    invitations = role.invitations.select_related("scope__parent__parent").order_by("scope__path", "pk")
    return [invitation for invitation in invitations if invitation.is_waiting]


def _validate_permissions(permissions: Iterable[str]) -> set[str]:
    permission_set = set(permissions)
    for permission in permission_set:
        validate_permission(permission)
    return permission_set


def _get_own_scope(role: Role) -> Scope:
    if role.scope is None:
        raise ValidationError("Built-in roles cannot be changed.", code="state")
    return role.scope


def _build_audit_values(name: str, permissions: Iterable[str]) -> dict[str, object]:
    return {"name": name, "permissions": sorted(permissions)}


@transaction.atomic
def assign_role(
    *,
    actor: User | None,
    scope: Scope,
    role: Role,
    user: User | None = None,
    group: UserGroup | None = None,
    resource_group: ResourceGroup | None = None,
    expires_at: datetime | None = None,
) -> RoleAssignment:
    """Assign a role to a user or a group at `scope` and below, for all resources or a resource group.

    A service account gets roles through its user. The actor needs permission to manage users there, and all
    permissions of the role. Otherwise people who may assign roles could make themselves administrators. An
    expired assignment of the same role is replaced.
    Raises `Forbidden`, `NotVisible`, `ValidationError`.
    """
    require_permission(actor, "core_user_manage", scope)
    for field, thing in {"role": role, "group": group, "resource_group": resource_group}.items():
        _require_at_or_above(scope, field, thing)
    lock_granted(role, group, resource_group, user)
    refuse_escalation(actor, role.permissions.values_list("permission", flat=True), scope)
    assignment = RoleAssignment(scope=scope, role=role, user=user, group=group, expires_at=expires_at)
    assignment.resource_group = resource_group
    assignment.full_clean(validate_constraints=False)
    if (user is None) == (group is None):
        raise ValidationError("Assign the role to one user, one group or one service account.")
    # Nobody has an expired one any more, but its row is in the way.
    rows = RoleAssignment.objects.filter(expires_at__lte=timezone.now())
    remove_assignments(
        actor, rows.filter(scope=scope, role=role, user=user, group=group, resource_group=resource_group)
    )
    has_it = f"{user or group} already has the role {role.name} in {scope.path}."
    create_unique(assignment, ValidationError(has_it))
    audit.record_audit_entry(
        actor=actor,
        action="roleassignment.create",
        thing=assignment,
        after=build_assignment_values(assignment),
    )
    return assignment


RESTORE_FIRST: Final = (
    "Restore {path} first: a role is assigned there, which cannot be removed while the scope is archived."
)


def _refuse_archived_scope(actor: User, scope: Scope) -> None:
    """Refuse to remove an assignment in an archived scope.

    Raises `ValidationError` for an actor who may remove assignments above it, else `Forbidden`, `NotVisible`.
    """
    archived = find_archived_scope(scope)
    if archived is not None:
        require(actor, "core_user_manage", get_nearest_active_scope(scope))
        raise ValidationError(RESTORE_FIRST.format(path=archived.path), code="state")


def describe_archived_assignments(assignments: QuerySet[RoleAssignment]) -> str:
    """Return which scope must be restored before all `assignments` can be removed; empty if there is none.

    Users who may delete what is assigned belong to all scopes below, so they may know the path.
    """
    rows = assignments.exclude(build_not_archived_filter("scope__")).select_related("scope__parent__parent")
    assignment = rows.order_by("scope__path").first()
    archived = find_archived_scope(assignment.scope) if assignment is not None else None
    return RESTORE_FIRST.format(path=archived.path) if archived is not None else ""


@transaction.atomic
@keep_account_administrator()
def remove_assignment(*, actor: User | None, assignment: RoleAssignment) -> None:
    """Remove a role assignment. An actor cannot remove more than they could assign.

    Raises `ValidationError` for an assignment in an archived scope and for the last account administrator,
    `Forbidden`, `NotVisible`.
    """
    _require_removal(actor, assignment)
    _delete_assignment(actor, lock_row(assignment))


def remove_assignments(actor: User | None, assignments: QuerySet[RoleAssignment]) -> None:
    """Remove role assignments, each with the permissions and the audit entry of `remove_assignment`.

    The caller removes none that makes an account administrator, or replaces it.
    """
    related = ("role", "scope__parent__parent", "user", "group", "resource_group")
    # Locked in one order; those that somebody removes meanwhile are left out.
    locked = assignments.select_for_update(of=("self",)).order_by("pk").select_related(*related)
    rows = list(locked.prefetch_related("role__permissions"))
    # All checks first: they read the permissions of the actor once, as they were before.
    with cache_permissions():
        for assignment in rows:
            _require_removal(actor, assignment)
    for assignment in rows:
        _delete_assignment(actor, assignment)


def _require_removal(actor: User | None, assignment: RoleAssignment) -> None:
    """Check that an actor may remove an assignment. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    if actor is not None:
        _refuse_archived_scope(actor, assignment.scope)
    require_permission(actor, "core_user_manage", assignment.scope)
    refuse_escalation(actor, list_granted(assignment.role), assignment.scope)


def _delete_assignment(actor: User | None, assignment: RoleAssignment) -> None:
    """Delete a locked assignment with its audit entry."""
    audit.record_audit_entry(
        actor=actor,
        action="roleassignment.delete",
        thing=assignment,
        before=build_assignment_values(assignment),
    )
    assignment.delete()


def build_assignment_values(assignment: RoleAssignment) -> dict[str, Any]:
    """Return the audited values of an assignment."""
    group, expires_at = assignment.resource_group, assignment.expires_at
    return {
        "principal": str(assignment.user or assignment.group),
        "role": assignment.role.identifier,
        "scope": assignment.scope.path,
        "resource_group": group.identifier if group else None,
        "expires_at": expires_at.isoformat() if expires_at else None,
    }


def _require_at_or_above(scope: Scope, field: str, thing: Role | UserGroup | ResourceGroup | None) -> None:
    """Reject rows of a scope that is not at or above. Raises `ValidationError`."""
    if thing is not None and thing.scope is not None and thing.scope.path not in scope.ancestor_paths():
        word = field.replace("_", " ")
        raise ValidationError({field: f"This {word} belongs to another scope."})
