"""Checks of permissions on one resource, and filters of querysets by them."""

from collections.abc import Collection
from functools import reduce
from operator import or_
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q, QuerySet
from django.http import Http404

from rbac.models import Scope
from rbac.permissions import PERMISSIONS, get_view_permission
from rbac.policy.grants import MOST_SCOPE_IDS, Grants, Reach, ResourceLocation, get_grants
from rbac.policy.principals import Principal
from rbac.policy.resources import HasScope, get_identities, get_identity_path, get_scope_id, get_scope_path
from rbac.policy.scope_tree import build_ancestor_filter, build_below_filter

Thing = TypeVar("Thing", bound=Model)


class Forbidden(PermissionDenied):
    """Error raised when the principal may view the resource but lacks the permission."""

    def __init__(self, permission: str) -> None:
        super().__init__(f"You need the permission {permission} in this scope.")
        self.permission = permission


class NotVisible(Http404):
    """For this principal the thing does not exist."""


def require(principal: Principal, permission: str, thing: HasScope) -> None:
    """Check that `permission` is granted.

    Raises `Forbidden` for a visible resource, else `NotVisible`.
    """
    _validate_known_permission(permission)
    granted = get_permissions(principal, thing)
    if permission in granted:
        return
    if get_view_permission(permission) in granted:
        raise Forbidden(permission)
    raise NotVisible("Not found, or you cannot view it.")


def can(principal: Principal, permission: str, thing: HasScope) -> bool:
    """Return whether a role grants `permission` on `thing`."""
    _validate_known_permission(permission)
    return permission in get_permissions(principal, thing)


def can_anywhere(principal: Principal, permission: str) -> bool:
    """Return whether any scope grants `permission` on all its resources."""
    _validate_known_permission(permission)
    return bool(get_grants(principal).get_reach(principal, permission))


def get_permissions(principal: Principal, thing: HasScope) -> frozenset[str]:
    """Return all permissions of the principal on `thing`; two or three queries, none if they are cached."""
    grants = get_grants(principal)
    names = get_identities(thing) if grants.has_names(principal) else {}
    return grants.get_permissions(principal, ResourceLocation(get_scope_id(thing), names))


def get_permissions_over_scope(principal: Principal, scope: Scope) -> frozenset[str]:
    """Return the permissions of the principal on every resource at `scope` and below: those it may grant."""
    return get_grants(principal).get_permissions_over_scope(principal, scope.pk)


def get_permissions_anywhere(principal: Principal) -> frozenset[str]:
    """Return all permissions of the principal on any resource in any scope."""
    return get_grants(principal).get_permissions_anywhere(principal)


def list_permitted_scopes(principal: Principal, permission: str) -> QuerySet[Scope]:
    """Return the scopes that grant `permission` on all their resources.

    These are the scopes of role assignments and all below; for shared view permissions also those above.
    Raises `ValueError` for an unknown permission.
    """
    _validate_known_permission(permission)
    grants = get_grants(principal)
    return _list_scopes(grants, grants.get_reach(principal, permission))


def list_member_scopes(principal: Principal) -> QuerySet[Scope]:
    """Return the scopes that the principal belongs to: where any role is assigned, all below, all above."""
    grants = get_grants(principal)
    return _list_scopes(grants, grants.get_member_reach(principal))


def filter_visible(
    principal: Principal,
    permission: str,
    queryset: QuerySet[Thing],
    scope: Scope | None = None,
    above: Collection[int] = (),
) -> QuerySet[Thing]:
    """Filter `queryset` by `permission`, and by `scope` and those below it if one is given.

    `above` has the keys of further scopes, whose resources are shared downwards. The condition lists keys of
    scopes, so that the query planner can estimate the rows; above `MOST_SCOPE_IDS` it describes them.
    """
    _validate_known_permission(permission)
    grants = get_grants(principal)
    path, identity = get_scope_path(queryset.model), get_identity_path(queryset.model, permission)
    parts = [(grants.get_reach(principal, permission), Q())]
    if identity is not None:
        named = grants.get_reaches_by_name(principal, permission)
        parts += [(reach, Q(**{f"{identity}__in": sorted(names)})) for reach, names in named.items()]
    within = None
    if scope is not None and scope.kind != Scope.Kind.ACCOUNT:
        within = grants.list_below(scope.pk).union(above)
    keys = [_list_keys(grants, reach, within) for reach, _ in parts]
    if sum(map(len, keys)) <= MOST_SCOPE_IDS:
        conditions = [
            Q(**{f"{path}__in": sorted(ids)}) & name for ids, (_, name) in zip(keys, parts, strict=True)
        ]
    else:
        reaches = [(Scope.objects.filter(_describe(reach)).values("pk"), name) for reach, name in parts]
        conditions = [Q(**{f"{path}__in": scopes}) & name for scopes, name in reaches]
        if scope is not None:
            queryset = queryset.filter(build_below_filter(scope, path) | Q(**{f"{path}__in": list(above)}))
    return queryset.filter(reduce(or_, conditions))


def _list_keys(grants: Grants, reach: Reach, within: frozenset[int] | None) -> frozenset[int]:
    scope_ids = grants.list_scope_ids(reach)
    return scope_ids if within is None else scope_ids & within


def _list_scopes(grants: Grants, reach: Reach) -> QuerySet[Scope]:
    keys = grants.list_scope_ids(reach)
    return Scope.objects.filter(Q(pk__in=sorted(keys)) if len(keys) <= MOST_SCOPE_IDS else _describe(reach))


def _describe(reach: Reach) -> Q:
    """Return the condition that a scope is in `reach`."""
    return build_ancestor_filter(reach.roots) | Q(pk__in=sorted(reach.singles))


def _validate_known_permission(permission: str) -> None:
    """Check that a permission is known. Raises `ValueError`."""
    if permission not in PERMISSIONS:
        raise ValueError(f"{permission} is not a permission of the catalogue")
