"""The questions about one permission: for one thing, and for many."""

from collections.abc import Collection
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.http import Http404

from rbac.models import ResourceGroupEntry, RoleAssignment, RolePermission, Scope
from rbac.permissions import PERMISSIONS, SHARED_VIEWS, view_permission
from rbac.policy.principals import Principal, assignments_of, key_allows
from rbac.policy.remembering import known_rights
from rbac.policy.sealed import sealed
from rbac.policy.things import Scoped, identity_of, identity_path, scope_id_of, scope_path
from rbac.policy.tree import at_or_below, live
from rbac.policy.where import is_granted, named, open_scopes, require_known, scopes_where

Thing = TypeVar("Thing", bound=Model)


class Forbidden(PermissionDenied):
    """The principal sees the thing but may not do this with it."""

    def __init__(self, permission: str) -> None:
        super().__init__(f"You need the permission {permission} here.")
        self.permission = permission


class NotVisible(Http404):
    """For this principal the thing does not exist."""


def can(principal: Principal, permission: str, thing: Scoped) -> bool:
    """Say whether a role grants `permission` on `thing`; one query, or none where rights are remembered."""
    known = known_rights(principal)
    here = known.permissions_at(thing) if known is not None else None
    if here is not None:
        require_known(permission)
        return permission in here
    identity = identity_of(thing, permission)
    entries = Q(identifier="") if identity is None else named(identity)
    return is_granted(principal, permission, entries, scope_id_of(thing))


def can_anywhere(principal: Principal, permission: str) -> bool:
    """Say whether there is any scope where `permission` is granted on everything of its kind."""
    known = known_rights(principal)
    if known is not None:
        require_known(permission)
        return bool(known.scopes_where(permission))
    return scopes_where(principal, permission).exists()


def visible_to(principal: Principal, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """Narrow `queryset` to what `permission` is granted on.

    One query whatever the number of objects: assignments are looked up in uncorrelated `IN (SELECT …)`.
    """
    require_known(permission)
    known = known_rights(principal)
    condition = known.reach(permission, queryset.model) if known is not None else None
    if condition is not None:
        return queryset.filter(condition)
    scopes = sealed(scopes_where(principal, permission).values("pk"))
    granted = Q(**{f"{scope_path(queryset.model)}__in": scopes})
    identity = identity_path(queryset.model, permission)
    if identity is None or not key_allows(principal, permission):
        return queryset.filter(granted)
    narrow = _narrow(principal, permission)
    names = sealed(_names(narrow, permission).values("identifier"))
    return queryset.filter(granted | _called(principal, permission, queryset.model, identity, narrow, names))


def visible_below(
    principal: Principal,
    permission: str,
    queryset: QuerySet[Thing],
    scope: Scope | None = None,
    above: Collection[int] = (),
) -> QuerySet[Thing]:
    """Narrow a long list as `visible_to` does, and to what hangs at or below `scope`; asks for scopes first.

    A planner that is told the scopes knows how many rows to expect and takes the index that fits. `above` has
    the keys of scopes that count too, where what hangs there is shared downwards.
    """
    require_known(permission)
    known = known_rights(principal)
    condition = known.reach(permission, queryset.model, scope, above) if known is not None else None
    if condition is not None:
        return queryset.filter(condition)
    path, identity = scope_path(queryset.model), identity_path(queryset.model, permission)
    scopes = scopes_where(principal, permission)
    if scope is not None:
        scopes = scopes.filter(at_or_below(scope, "pk") | Q(pk__in=above))
    granted = Q(**{f"{path}__in": list(scopes.values_list("pk", flat=True))})
    if identity is None or not key_allows(principal, permission):
        return queryset.filter(granted)
    narrow = _narrow(principal, permission)
    names = list(_names(narrow, permission).values_list("identifier", flat=True))
    if not names:
        return queryset.filter(granted)
    called = _called(principal, permission, queryset.model, identity, narrow, names)
    if scope is not None:
        called &= at_or_below(scope, path) | Q(**{f"{path}__in": above})
    return queryset.filter(granted | called)


def require(principal: Principal, permission: str, thing: Scoped) -> None:
    """Do nothing where `permission` is granted.

    Raises `Forbidden` where the thing may at least be seen, `NotVisible` where not even that.
    """
    if can(principal, permission, thing):
        return
    view = view_permission(permission)
    if view != permission and can(principal, view, thing):
        raise Forbidden(permission)
    raise NotVisible("There is nothing here that you may see.")


def _narrow(principal: Principal, permission: str) -> QuerySet[RoleAssignment]:
    """The assignments that give `permission`, on what a resource group lists."""
    roles = RolePermission.objects.filter(permission=permission).values("role_id")
    return assignments_of(principal).filter(role__in=roles, resource_group__isnull=False)


def _names(narrow: QuerySet[RoleAssignment], permission: str) -> QuerySet[ResourceGroupEntry]:
    """What resource groups name, one by one, for assignments that give `permission`."""
    groups = narrow.values("resource_group_id")
    kind = PERMISSIONS[permission].resource
    return ResourceGroupEntry.objects.filter(resource=kind, group__in=groups).exclude(identifier="")


def _called(
    principal: Principal,
    permission: str,
    model: type[Model],
    identity: str,
    narrow: QuerySet[RoleAssignment],
    names: object,
) -> Q:
    """The condition that an assignment speaks of a row by its name, and reaches the scope of the row."""
    path, at, is_shared = scope_path(model), "group__assignments__scope", permission in SHARED_VIEWS
    reach = Q(**{at: OuterRef(path)}) | Q(**{at: OuterRef(f"{path}__parent")})
    reach |= Q(**{at: OuterRef(f"{path}__parent__parent")})
    if is_shared:
        above = Q(**{f"{at}__parent": OuterRef(path)}) | Q(**{f"{at}__parent__parent": OuterRef(path)})
        reach |= above & live(f"{at}__")
    entries = ResourceGroupEntry.objects.filter(
        reach,
        resource=PERMISSIONS[permission].resource,
        identifier=OuterRef(identity),
        group__assignments__in=sealed(narrow.values("pk")),
    )
    scopes = sealed(open_scopes(principal, is_shared=is_shared).values("pk"))
    # Few rows pass the first condition, which costs little; the last is asked row by row.
    return Q(Q(**{f"{identity}__in": names}), Q(**{f"{path}__in": scopes}), Exists(entries))
