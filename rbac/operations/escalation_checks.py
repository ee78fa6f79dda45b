"""Permission checks of operations: nobody grants more than they have."""

from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.utils import timezone

from rbac.models import Role, RoleAssignment, Scope, ServiceAccount, User
from rbac.policy import (
    Forbidden,
    cache_permissions,
    get_nearest_active_scope,
    get_permissions_over_scope,
    require,
)


def require_permission(actor: User | None, permission: str, scope: Scope) -> None:
    """Check a permission; Slipway itself (no actor) may do everything."""
    if actor is not None:
        require(actor, permission, scope)


def refuse_escalation(actor: User | None, permissions: Iterable[str], scope: Scope) -> None:
    """Refuse to grant permissions that the actor lacks at `scope` or below. Raises `Forbidden`."""
    if actor is None:
        return
    if missing := sorted(set(permissions) - get_permissions_over_scope(actor, scope)):
        raise Forbidden(missing[0])


def refuse_role_escalation(actor: User | None, assignments: QuerySet[RoleAssignment]) -> None:
    """Refuse to grant `assignments` whose permissions the actor lacks. Raises `Forbidden`.

    Nobody has permissions in an archived scope. Its roles count again once it is restored, so they are
    checked at the scope where restoring needs permission.
    """
    if actor is None:
        return
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    rows = assignments.filter(current).select_related("role", "scope__parent__parent")
    with cache_permissions():
        for assignment in rows.prefetch_related("role__permissions"):
            refuse_escalation(
                actor, list_granted(assignment.role), get_nearest_active_scope(assignment.scope)
            )


def list_granted(role: Role) -> list[str]:
    """Return the permissions of `role`; no query if they are prefetched."""
    return [granted.permission for granted in role.permissions.all()]


def describe_lending_refusal(actor: User, account: ServiceAccount) -> str:
    """Return why the actor must not lend an account: it has more permissions; "" if it has not."""
    try:
        refuse_role_escalation(actor, list_user_assignments(account.user))
    except Forbidden as refused:
        return f"This service account has permissions that you do not have. You need {refused.permission}."
    return ""


def list_user_assignments(user: User) -> QuerySet[RoleAssignment]:
    """Return the assignments of `user`, directly and through groups."""
    return RoleAssignment.objects.filter(Q(user=user) | Q(group__in=user.user_groups.values("pk")))
