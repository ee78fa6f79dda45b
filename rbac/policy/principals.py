"""Principals, and the role assignments that are valid for them now."""

from datetime import datetime

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet
from django.utils import timezone

from rbac.models import ApiKeyLimits, RoleAssignment, User, UserGroup
from rbac.policy.scope_tree import build_not_archived_filter

Principal = User | AnonymousUser


def list_valid_assignments(
    person: int, *, is_service_account: bool, now: datetime
) -> QuerySet[RoleAssignment]:
    """Return the assignments of a person that are valid `now`: not expired, of a user that is active."""
    active = Q(user__is_active=True)
    if is_service_account:
        # A service account of an archived scope is inactive in all scopes.
        active &= build_not_archived_filter("user__service_account__scope__")
    groups = UserGroup.users.through.objects.filter(active, user=person)
    owner_filter = Q(active, user=person) | Q(group__in=groups.values("usergroup_id"))
    return RoleAssignment.objects.filter(owner_filter, build_validity_filter(now))


def build_validity_filter(now: datetime | None = None) -> Q:
    """Return the condition that an assignment has not expired."""
    return Q(expires_at__isnull=True) | Q(expires_at__gt=now or timezone.now())


def get_key_scope(principal: Principal) -> int | None:
    """Return the key of the scope of the principal's API key, or None."""
    limits = get_key_limits(principal)
    return limits.scope.pk if limits is not None and limits.scope is not None else None


def is_allowed_by_key(principal: Principal, permission: str) -> bool:
    """Return whether the principal's API key, if any, allows `permission`."""
    limits = get_key_limits(principal)
    return limits is None or not limits.permissions or permission in limits.permissions


def get_key_limits(principal: Principal) -> ApiKeyLimits | None:
    """Return the limits of the principal's API key, or None."""
    return principal.key_limits if isinstance(principal, User) else None
