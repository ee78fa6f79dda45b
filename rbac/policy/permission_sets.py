"""All permissions of a principal on a resource, over a scope, or anywhere."""

from collections.abc import Iterable
from typing import Any

from django.db.models import BooleanField, Exists, ExpressionWrapper, FilteredRelation, Q

from rbac.models import Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEW_PERMISSIONS
from rbac.policy.principals import Principal, get_key_scope, is_allowed_by_key, list_valid_assignments
from rbac.policy.request_cache import get_cached_permissions
from rbac.policy.resources import HasScope, get_identities, get_scope_id
from rbac.policy.scope_filters import list_member_scopes
from rbac.policy.scope_tree import (
    build_below_id_filter,
    build_covering_assignment_filter,
    build_descendant_assignment_filter,
    build_not_archived_filter,
)

_WHOLE_TYPE_ENTRIES = Q(resource_group__entries__identifier="")
# Of each row of an assignment: a permission of its role, its resource group, a kind of thing in that.
_GRANT_COLUMNS = ("role__permissions__permission", "resource_group_id", "entry__resource")


def get_permissions(principal: Principal, thing: HasScope) -> frozenset[str]:
    """Return all permissions of the principal on `thing`.

    One query, or none with cached permissions; one more for an API key with a scope.
    """
    known = get_cached_permissions(principal)
    here = known.get_permissions(thing) if known is not None else None
    if here is not None:
        return here
    entries = _WHOLE_TYPE_ENTRIES
    for resource, identifier in get_identities(thing).items():
        entries |= Q(
            resource_group__entries__resource=resource, resource_group__entries__identifier=identifier
        )
    return _load_permissions(principal, get_scope_id(thing), entries, is_shared=True)


def get_permissions_over_scope(principal: Principal, scope: Scope) -> frozenset[str]:
    """Return all permissions of the principal on every resource at `scope` and below.

    Unlike `get_permissions`, view permissions from shared scopes are left out: this is the set that the
    principal may grant.
    """
    return _load_permissions(principal, scope.pk, _WHOLE_TYPE_ENTRIES, is_shared=False)


def get_permissions_anywhere(principal: Principal) -> frozenset[str]:
    """Return all permissions of the principal on any resource in any scope; one query, or none."""
    if known := get_cached_permissions(principal):
        return known.permissions_anywhere()
    rows = list_valid_assignments(principal).filter(build_not_archived_filter("scope__"))
    entry = FilteredRelation("resource_group__entries")
    return _select_allowed(principal, rows.annotate(entry=entry).values_list(*_GRANT_COLUMNS).distinct())


def _load_permissions(principal: Principal, scope: int, entries: Q, *, is_shared: bool) -> frozenset[str]:
    reach = (
        build_covering_assignment_filter(scope) | build_descendant_assignment_filter(scope)
        if is_shared
        else build_covering_assignment_filter(scope)
    )
    rows = (
        list_valid_assignments(principal)
        .filter(reach)
        .filter(Exists(Scope.objects.filter(build_not_archived_filter(), pk=scope)))
        .annotate(
            is_covered=ExpressionWrapper(build_covering_assignment_filter(scope), output_field=BooleanField())
        )
        .annotate(entry=FilteredRelation("resource_group__entries", condition=entries))
    )
    key = get_key_scope(principal)
    is_inside = key is None or Scope.objects.filter(build_below_id_filter(key), pk=scope).exists()
    if not is_inside and not (is_shared and list_member_scopes(principal).filter(pk=scope).exists()):
        return frozenset()
    found = rows.values_list(*_GRANT_COLUMNS, "is_covered").distinct()
    is_over = [(row[:3], row[3] and is_inside) for row in found]
    over = _select_allowed(principal, (row for row, covered in is_over if covered))
    seen = _select_allowed(principal, (row for row, _ in is_over)) if is_shared else frozenset()
    return over | (seen & SHARED_VIEW_PERMISSIONS)


def _select_allowed(principal: Principal, rows: Iterable[tuple[Any, ...]]) -> frozenset[str]:
    found = list(rows)
    granted = {
        permission
        for permission, group, resource in found
        if permission in PERMISSIONS and (group is None or PERMISSIONS[permission].resource == resource)
    }
    if found:
        granted.add(ALWAYS_GRANTED)
    return frozenset(p for p in granted if is_allowed_by_key(principal, p))
