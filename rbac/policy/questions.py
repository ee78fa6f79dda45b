"""The questions about one permission: for one thing, and for many."""

from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, Model, OuterRef, Q, QuerySet
from django.http import Http404

from rbac.models import ResourceGroupEntry, RolePermission, Scope
from rbac.permissions import PERMISSIONS, view_permission
from rbac.policy.principals import Principal, assignments_of
from rbac.policy.things import Scoped, identity_of, identity_path, scope_id_of, scope_path
from rbac.policy.tree import at_or_below
from rbac.policy.where import is_granted, named, scopes_granted, scopes_where

Thing = TypeVar("Thing", bound=Model)


class Forbidden(PermissionDenied):
    """The principal sees the thing but may not do this with it."""

    def __init__(self, permission: str) -> None:
        super().__init__(f"You need the permission {permission} here.")
        self.permission = permission


class NotVisible(Http404):
    """For this principal the thing does not exist."""


def can(principal: Principal, permission: str, thing: Scoped) -> bool:
    """Say whether a role grants `permission` on `thing`; one query."""
    identity = identity_of(thing, permission)
    entries = Q(identifier="") if identity is None else named(identity)
    return is_granted(principal, permission, entries, scope_id_of(thing))


def can_anywhere(principal: Principal, permission: str) -> bool:
    """Say whether there is any scope where `permission` is granted on everything of its kind."""
    return scopes_where(principal, permission).exists()


def visible_to(principal: Principal, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """Narrow `queryset` to what `permission` is granted on.

    One query whatever the number of objects: assignments are looked up in uncorrelated `IN (SELECT …)`.
    """
    scopes = scopes_where(principal, permission).values("pk")
    granted = Q(**{f"{scope_path(queryset.model)}__in": scopes})
    if (identity := identity_path(queryset.model, permission)) is None:
        return queryset.filter(granted)
    names = _names(principal, permission).values("identifier")
    return queryset.filter(granted | _called(principal, permission, queryset.model, identity, names))


def visible_below(
    principal: Principal, permission: str, queryset: QuerySet[Thing], scope: Scope | None = None
) -> QuerySet[Thing]:
    """Narrow a long list as `visible_to` does, and to what hangs at or below `scope`; asks for scopes first.

    A planner that is told the scopes knows how many rows to expect and takes the index that fits.
    """
    path, identity = scope_path(queryset.model), identity_path(queryset.model, permission)
    scopes = scopes_where(principal, permission)
    if scope is not None:
        scopes = scopes.filter(at_or_below(scope, "pk"))
    granted = Q(**{f"{path}__in": list(scopes.values_list("pk", flat=True))})
    names = (
        [] if identity is None else list(_names(principal, permission).values_list("identifier", flat=True))
    )
    if identity is None or not names:
        return queryset.filter(granted)
    called = _called(principal, permission, queryset.model, identity, names)
    return queryset.filter(granted | (called if scope is None else called & at_or_below(scope, path)))


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


def _names(principal: Principal, permission: str) -> QuerySet[ResourceGroupEntry]:
    """What resource groups name, one by one, for assignments that give `permission`."""
    roles = RolePermission.objects.filter(permission=permission).values("role_id")
    groups = assignments_of(principal).filter(role__in=roles, resource_group__isnull=False)
    return ResourceGroupEntry.objects.filter(
        resource=PERMISSIONS[permission].resource, group__in=groups.values("resource_group_id")
    ).exclude(identifier="")


def _called(principal: Principal, permission: str, model: type[Model], identity: str, names: object) -> Q:
    # Few rows pass the first half, which costs nothing; the second is asked row by row.
    name = named(OuterRef(OuterRef(OuterRef(identity))))
    reached = scopes_granted(principal, permission, name).filter(pk=OuterRef(scope_path(model)))
    return Q(Q(**{f"{identity}__in": names}), Exists(reached))
