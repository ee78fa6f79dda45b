"""Checks of one permission, on one resource or as a queryset filter."""

from collections.abc import Collection
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.http import Http404

from rbac.models import ResourceGroupEntry, RoleAssignment, RolePermission, Scope
from rbac.permissions import PERMISSIONS, SHARED_VIEW_PERMISSIONS, get_view_permission
from rbac.policy.principals import Principal, is_allowed_by_key, list_valid_assignments
from rbac.policy.request_cache import get_cached_permissions
from rbac.policy.resources import HasScope, get_identity, get_identity_path, get_scope_id, get_scope_path
from rbac.policy.scope_filters import (
    build_entry_filter,
    is_granted,
    list_open_scopes,
    list_permitted_scopes,
    validate_known_permission,
)
from rbac.policy.scope_tree import build_below_filter, build_not_archived_filter, compile_subquery

Thing = TypeVar("Thing", bound=Model)


class Forbidden(PermissionDenied):
    """Error raised when the principal may view the resource but lacks the permission."""

    def __init__(self, permission: str) -> None:
        super().__init__(f"You need the permission {permission} here.")
        self.permission = permission


class NotVisible(Http404):
    """For this principal the thing does not exist."""


def can(principal: Principal, permission: str, thing: HasScope) -> bool:
    """Return whether a role grants `permission` on `thing`; one query, or none with cached permissions."""
    known = get_cached_permissions(principal)
    here = known.get_permissions(thing) if known is not None else None
    if here is not None:
        validate_known_permission(permission)
        return permission in here
    identity = get_identity(thing, permission)
    entries = Q(identifier="") if identity is None else build_entry_filter(identity)
    return is_granted(principal, permission, entries, get_scope_id(thing))


def can_anywhere(principal: Principal, permission: str) -> bool:
    """Return whether any scope grants `permission` on all its resources."""
    known = get_cached_permissions(principal)
    if known is not None:
        validate_known_permission(permission)
        return bool(known.get_permitted_scope_ids(permission))
    return list_permitted_scopes(principal, permission).exists()


def filter_visible(principal: Principal, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """Filter `queryset` by `permission`.

    One query for any number of objects: assignments are uncorrelated `IN (SELECT …)` subqueries.
    """
    validate_known_permission(permission)
    known = get_cached_permissions(principal)
    condition = known.build_visible_filter(permission, queryset.model) if known is not None else None
    if condition is not None:
        return queryset.filter(condition)
    scopes = compile_subquery(list_permitted_scopes(principal, permission).values("pk"))
    granted = Q(**{f"{get_scope_path(queryset.model)}__in": scopes})
    identity = get_identity_path(queryset.model, permission)
    if identity is None or not is_allowed_by_key(principal, permission):
        return queryset.filter(granted)
    narrow = _narrow_to_visible(principal, permission)
    names = compile_subquery(_list_names(narrow, permission).values("identifier"))
    return queryset.filter(
        granted | _build_name_filter(principal, permission, queryset.model, identity, narrow, names)
    )


def filter_visible_below(
    principal: Principal,
    permission: str,
    queryset: QuerySet[Thing],
    scope: Scope | None = None,
    above: Collection[int] = (),
) -> QuerySet[Thing]:
    """Filter a large table by visibility at or below `scope`; reads the scopes first.

    With known scopes, the query planner can estimate the rows and choose the right index. `above` has the
    keys of further scopes, whose resources are shared downwards.
    """
    validate_known_permission(permission)
    known = get_cached_permissions(principal)
    condition = (
        known.build_visible_filter(permission, queryset.model, scope, above) if known is not None else None
    )
    if condition is not None:
        return queryset.filter(condition)
    path, identity = get_scope_path(queryset.model), get_identity_path(queryset.model, permission)
    scopes = list_permitted_scopes(principal, permission)
    if scope is not None:
        scopes = scopes.filter(build_below_filter(scope, "pk") | Q(pk__in=above))
    granted = Q(**{f"{path}__in": list(scopes.values_list("pk", flat=True))})
    if identity is None or not is_allowed_by_key(principal, permission):
        return queryset.filter(granted)
    narrow = _narrow_to_visible(principal, permission)
    names = list(_list_names(narrow, permission).values_list("identifier", flat=True))
    if not names:
        return queryset.filter(granted)
    called = _build_name_filter(principal, permission, queryset.model, identity, narrow, names)
    if scope is not None:
        called &= build_below_filter(scope, path) | Q(**{f"{path}__in": above})
    return queryset.filter(granted | called)


def require(principal: Principal, permission: str, thing: HasScope) -> None:
    """Check that `permission` is granted.

    Raises `Forbidden` for a visible resource, else `NotVisible`.
    """
    if can(principal, permission, thing):
        return
    view = get_view_permission(permission)
    if view != permission and can(principal, view, thing):
        raise Forbidden(permission)
    raise NotVisible("There is nothing here that you may see.")


def _narrow_to_visible(principal: Principal, permission: str) -> QuerySet[RoleAssignment]:
    """Return the assignments with `permission` that are limited to resource groups."""
    roles = RolePermission.objects.filter(permission=permission).values("role_id")
    return list_valid_assignments(principal).filter(role__in=roles, resource_group__isnull=False)


def _list_names(narrow: QuerySet[RoleAssignment], permission: str) -> QuerySet[ResourceGroupEntry]:
    """Return the resource group entries with identifiers of assignments with `permission`."""
    groups = narrow.values("resource_group_id")
    kind = PERMISSIONS[permission].resource
    return ResourceGroupEntry.objects.filter(resource=kind, group__in=groups).exclude(identifier="")


def _build_name_filter(
    principal: Principal,
    permission: str,
    model: type[Model],
    identity: str,
    narrow: QuerySet[RoleAssignment],
    names: object,
) -> Q:
    """Return the condition that an assignment names a row and covers the row's scope."""
    path, at, is_shared = (
        get_scope_path(model),
        "group__assignments__scope",
        permission in SHARED_VIEW_PERMISSIONS,
    )
    reach = Q(**{at: OuterRef(path)}) | Q(**{at: OuterRef(f"{path}__parent")})
    reach |= Q(**{at: OuterRef(f"{path}__parent__parent")})
    if is_shared:
        above = Q(**{f"{at}__parent": OuterRef(path)}) | Q(**{f"{at}__parent__parent": OuterRef(path)})
        reach |= above & build_not_archived_filter(f"{at}__")
    entries = ResourceGroupEntry.objects.filter(
        reach,
        resource=PERMISSIONS[permission].resource,
        identifier=OuterRef(identity),
        group__assignments__in=compile_subquery(narrow.values("pk")),
    )
    scopes = compile_subquery(list_open_scopes(principal, is_shared=is_shared).values("pk"))
    # Few rows pass the first, cheap condition; the last one runs per row.
    return Q(Q(**{f"{identity}__in": names}), Q(**{f"{path}__in": scopes}), Exists(entries))
