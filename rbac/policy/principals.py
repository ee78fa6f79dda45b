"""Who asks, and which role assignments count for them now."""

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet
from django.utils import timezone

from rbac.models import KeyLimits, RoleAssignment, User, UserGroup
from rbac.policy.tree import live

Principal = User | AnonymousUser


def assignments_of(principal: Principal) -> QuerySet[RoleAssignment]:
    """Return the assignments that count now: the user is active (read afresh) and they have not expired."""
    if not isinstance(principal, User) or principal.pk is None:
        return RoleAssignment.objects.none()
    active = Q(user__is_active=True)
    if principal.kind == User.Kind.SERVICE_ACCOUNT:
        # A program of an archived scope is gone with it, whatever it may do elsewhere.
        active &= live("user__service_account__scope__")
    groups = UserGroup.users.through.objects.filter(active, user=principal.pk)
    mine = Q(active, user=principal.pk) | Q(group__in=groups.values("usergroup_id"))
    return RoleAssignment.objects.filter(mine, current())


def current() -> Q:
    """Return the condition that an assignment has not expired."""
    return Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())


def key_scope(principal: Principal) -> int | None:
    """Return the key of the scope that the principal's API key is kept to; None where it is kept to none."""
    limits = _limits_of(principal)
    return limits.scope.pk if limits is not None and limits.scope is not None else None


def key_allows(principal: Principal, permission: str) -> bool:
    """Say whether the API key that the principal came with, if any, may be used for `permission` at all."""
    limits = _limits_of(principal)
    return limits is None or not limits.permissions or permission in limits.permissions


def _limits_of(principal: Principal) -> KeyLimits | None:
    return principal.key_limits if isinstance(principal, User) else None
