"""Scopes in which a permission is granted."""

from typing import Any

from django.db.models import Exists, Q, QuerySet

from rbac.models import ResourceGroupEntry, RoleAssignment, RolePermission, Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEW_PERMISSIONS
from rbac.policy.principals import Principal, get_key_scope, is_allowed_by_key, list_valid_assignments
from rbac.policy.request_cache import MOST_SCOPE_IDS, get_cached_permissions
from rbac.policy.scope_tree import (
    build_above_filter,
    build_above_id_filter,
    build_below_id_filter,
    build_covered_filter,
    build_covering_assignment_filter,
    build_descendant_assignment_filter,
    build_not_archived_filter,
)


def list_permitted_scopes(principal: Principal, permission: str) -> QuerySet[Scope]:
    """Return the scopes that grant `permission` on all their resources.

    These are the scopes of role assignments and all below; for shared view permissions also those above.
    Raises `ValueError` for an unknown permission.
    """
    validate_known_permission(permission)
    known = get_cached_permissions(principal)
    if known is not None and len(keys := known.get_permitted_scope_ids(permission)) <= MOST_SCOPE_IDS:
        return Scope.objects.filter(pk__in=keys)
    return list_granted_scopes(principal, permission, Q(identifier=""))


def list_granted_scopes(principal: Principal, permission: str, entries: Q) -> QuerySet[Scope]:
    """Return the scopes that grant `permission`; `entries` selects the resource group entries."""
    validate_known_permission(permission)
    if not is_allowed_by_key(principal, permission):
        return Scope.objects.none()
    assignments = list_granting_assignments(principal, permission, entries)
    return _list_reached_scopes(principal, assignments, is_shared=permission in SHARED_VIEW_PERMISSIONS)


def is_granted(principal: Principal, permission: str, entries: Q, scope: int) -> bool:
    """Return whether `list_granted_scopes` contains this scope, in one small query."""
    validate_known_permission(permission)
    if not is_allowed_by_key(principal, permission):
        return False
    is_shared = permission in SHARED_VIEW_PERMISSIONS
    reach = (
        build_covering_assignment_filter(scope) | build_descendant_assignment_filter(scope)
        if is_shared
        else build_covering_assignment_filter(scope)
    )
    found = list_granting_assignments(principal, permission, entries).filter(reach)
    return found.filter(Exists(list_open_scopes(principal, is_shared=is_shared).filter(pk=scope))).exists()


def list_member_scopes(principal: Principal) -> QuerySet[Scope]:
    """Return the scopes that the principal belongs to: where any role is assigned, all below, all above."""
    known = get_cached_permissions(principal)
    if known is not None and len(keys := known.get_member_scope_ids()) <= MOST_SCOPE_IDS:
        return Scope.objects.filter(pk__in=keys)
    return _list_reached_scopes(principal, list_valid_assignments(principal), is_shared=True)


def list_granting_assignments(principal: Principal, permission: str, entries: Q) -> QuerySet[RoleAssignment]:
    """Return the assignments that give `permission` on everything, or by one of these `entries`."""
    if permission == ALWAYS_GRANTED:
        return list_valid_assignments(principal)
    roles = RolePermission.objects.filter(permission=permission).values("role_id")
    groups = ResourceGroupEntry.objects.filter(entries, resource=PERMISSIONS[permission].resource)
    narrow = Q(resource_group__isnull=True) | Q(resource_group__in=groups.values("group_id"))
    return list_valid_assignments(principal).filter(narrow, role__in=roles)


def build_entry_filter(identifier: Any) -> Q:
    """Return the condition that an entry of a resource group speaks of the thing called `identifier`."""
    return Q(identifier="") | Q(identifier=identifier)


def _list_reached_scopes(
    principal: Principal, assignments: QuerySet[RoleAssignment], *, is_shared: bool
) -> QuerySet[Scope]:
    reach = build_covered_filter(assignments)
    if is_shared:
        reach |= build_above_filter(assignments)
    return list_open_scopes(principal, is_shared=is_shared).filter(reach)


def list_open_scopes(principal: Principal, *, is_shared: bool) -> QuerySet[Scope]:
    """Return the scopes that are not archived and that the principal's API key, if any, does not shut out."""
    found, key = Scope.objects.filter(build_not_archived_filter()), get_key_scope(principal)
    if key is None:
        return found
    return found.filter(
        build_below_id_filter(key) | build_above_id_filter(key) if is_shared else build_below_id_filter(key)
    )


def validate_known_permission(permission: str) -> None:
    """Check that a permission is known. Raises `ValueError`."""
    if permission not in PERMISSIONS:
        raise ValueError(f"{permission} is not a permission of the catalogue")
