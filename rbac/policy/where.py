"""Where something is granted: scopes, for a kind of thing or for one that has a name."""

from typing import Any

from django.db.models import Exists, Q, QuerySet

from rbac.models import ResourceGroupEntry, RoleAssignment, RolePermission, Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEWS
from rbac.policy.principals import Principal, assignments_of, key_allows, key_scope
from rbac.policy.remembering import MOST_LISTED, known_rights
from rbac.policy.tree import above_key, above_of, at_or_below_key, covered_by, covers, live, looks_up_to


def scopes_where(principal: Principal, permission: str) -> QuerySet[Scope]:
    """Return the scopes where `permission` is granted on everything of its kind.

    Those are where a role is assigned and all below; for views of what is shared downwards, all above too.
    Raises `ValueError` for a permission that is not in the catalogue.
    """
    require_known(permission)
    known = known_rights(principal)
    if known is not None and len(keys := known.scopes_where(permission)) <= MOST_LISTED:
        return Scope.objects.filter(pk__in=keys)
    return scopes_granted(principal, permission, Q(identifier=""))


def scopes_granted(principal: Principal, permission: str, entries: Q) -> QuerySet[Scope]:
    """Return the scopes where `permission` is granted; `entries` says which of resource groups count."""
    require_known(permission)
    if not key_allows(principal, permission):
        return Scope.objects.none()
    assignments = assignments_granting(principal, permission, entries)
    return _reached(principal, assignments, is_shared=permission in SHARED_VIEWS)


def is_granted(principal: Principal, permission: str, entries: Q, scope: int) -> bool:
    """Say whether the scope with this key is among `scopes_granted`; one query, and a small one."""
    require_known(permission)
    if not key_allows(principal, permission):
        return False
    is_shared = permission in SHARED_VIEWS
    reach = covers(scope) | looks_up_to(scope) if is_shared else covers(scope)
    found = assignments_granting(principal, permission, entries).filter(reach)
    return found.filter(Exists(open_scopes(principal, is_shared=is_shared).filter(pk=scope))).exists()


def scopes_of_member(principal: Principal) -> QuerySet[Scope]:
    """Return the scopes that the principal belongs to: where any role is assigned, all below, all above."""
    known = known_rights(principal)
    if known is not None and len(keys := known.scopes_of_member()) <= MOST_LISTED:
        return Scope.objects.filter(pk__in=keys)
    return _reached(principal, assignments_of(principal), is_shared=True)


def assignments_granting(principal: Principal, permission: str, entries: Q) -> QuerySet[RoleAssignment]:
    """Return the assignments that give `permission` on everything, or by one of these `entries`."""
    if permission == ALWAYS_GRANTED:
        return assignments_of(principal)
    roles = RolePermission.objects.filter(permission=permission).values("role_id")
    groups = ResourceGroupEntry.objects.filter(entries, resource=PERMISSIONS[permission].resource)
    narrow = Q(resource_group__isnull=True) | Q(resource_group__in=groups.values("group_id"))
    return assignments_of(principal).filter(narrow, role__in=roles)


def named(identifier: Any) -> Q:
    """Return the condition that an entry of a resource group speaks of the thing called `identifier`."""
    return Q(identifier="") | Q(identifier=identifier)


def _reached(
    principal: Principal, assignments: QuerySet[RoleAssignment], *, is_shared: bool
) -> QuerySet[Scope]:
    reach = covered_by(assignments)
    if is_shared:
        reach |= above_of(assignments)
    return open_scopes(principal, is_shared=is_shared).filter(reach)


def open_scopes(principal: Principal, *, is_shared: bool) -> QuerySet[Scope]:
    """Return the scopes that are not archived and that the principal's API key, if any, does not shut out."""
    found, key = Scope.objects.filter(live()), key_scope(principal)
    if key is None:
        return found
    return found.filter(at_or_below_key(key) | above_key(key) if is_shared else at_or_below_key(key))


def require_known(permission: str) -> None:
    """Do nothing for a permission of the catalogue. Raises `ValueError` for any other."""
    if permission not in PERMISSIONS:
        raise ValueError(f"{permission} is not a permission of the catalogue")
