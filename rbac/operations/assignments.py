"""Giving roles and taking them away."""

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations.asking import refuse_more_than_own, require_of


@transaction.atomic
def assign_role(
    *,
    actor: User | None,
    scope: Scope,
    role: Role,
    user: User | None = None,
    group: UserGroup | None = None,
    expires_at: datetime | None = None,
) -> RoleAssignment:
    """Give a user or a group a role at `scope` and below.

    The actor must be allowed to manage users there and have every permission that the role gives:
    otherwise who may assign roles could make themselves an admin.
    """
    require_of(actor, "core_user_manage", scope)
    if role.scope is not None and role.scope.path not in scope.ancestor_paths():
        raise ValidationError({"role": "This role belongs to another scope."})
    refuse_more_than_own(actor, role.permissions.values_list("permission", flat=True), scope)
    assignment = RoleAssignment(scope=scope, role=role, user=user, group=group, expires_at=expires_at)
    assignment.full_clean()
    assignment.save()
    audit.record(actor=actor, action="roleassignment.create", thing=assignment)
    return assignment


@transaction.atomic
def remove_assignment(*, actor: User | None, assignment: RoleAssignment) -> None:
    """Take a role away again. An actor cannot take away more than they could give."""
    require_of(actor, "core_user_manage", assignment.scope)
    permissions = assignment.role.permissions.values_list("permission", flat=True)
    refuse_more_than_own(actor, permissions, assignment.scope)
    audit.record(actor=actor, action="roleassignment.delete", thing=assignment)
    assignment.delete()
