"""Role assignments in archived scopes: nobody can remove them before the scope is restored."""

from typing import Final

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from rbac.models import RoleAssignment, Scope, User
from rbac.policy import build_not_archived_filter, find_archived_scope, get_nearest_active_scope, require

RESTORE_FIRST: Final = (
    "Restore {path} first: a role is assigned there, which cannot be removed while the scope is archived."
)


def refuse_archived_scope(actor: User, scope: Scope) -> None:
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
