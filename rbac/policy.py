"""Answers who may do what: every page, route, socket and admin form asks here and nowhere else."""

from typing import Any, Protocol, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q, QuerySet
from django.http import Http404
from django.utils import timezone

from rbac.models import RoleAssignment, RolePermission, Scope, User, UserGroup
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, view_permission

Principal = User | AnonymousUser
Thing = TypeVar("Thing", bound=Model)


class Scoped(Protocol):
    """Something that hangs on a scope."""

    @property
    def scope(self) -> Scope: ...


class Forbidden(PermissionDenied):
    """The principal sees the thing but may not do this with it."""

    def __init__(self, permission: str) -> None:
        super().__init__(f"You need the permission {permission} here.")
        self.permission = permission


class NotVisible(Http404):
    """For this principal the thing does not exist."""


def can(principal: Principal, permission: str, thing: Scoped) -> bool:
    """Say whether a role grants `permission` where `thing` hangs; one query."""
    return scopes_where(principal, permission).filter(pk=_scope_id(thing)).exists()


def can_anywhere(principal: Principal, permission: str) -> bool:
    """Say whether there is any scope where `permission` is granted."""
    return scopes_where(principal, permission).exists()


def visible_to(principal: Principal, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """Narrow `queryset` to what `permission` is granted on.

    One query whatever the number of objects: assignments are looked up in uncorrelated `IN (SELECT …)`.
    """
    path = getattr(queryset.model, "SCOPE_PATH", "scope")
    return queryset.filter(**{f"{path}__in": scopes_where(principal, permission).values("pk")})


def visible_below(
    principal: Principal, permission: str, queryset: QuerySet[Thing], scope: Scope | None = None
) -> QuerySet[Thing]:
    """Narrow a long list as `visible_to` does, and to what hangs at or below `scope`; asks for scopes first.

    A planner that is told the scopes knows how many rows to expect and takes the index that fits.
    """
    path = getattr(queryset.model, "SCOPE_PATH", "scope")
    scopes = scopes_where(principal, permission)
    if scope is not None:
        scopes = scopes.filter(at_or_below(scope, "pk"))
    return queryset.filter(**{f"{path}__in": list(scopes.values_list("pk", flat=True))})


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


def scopes_where(principal: Principal, permission: str) -> QuerySet[Scope]:
    """Return the scopes where `permission` is granted: where a role is assigned, and everything below."""
    if permission not in PERMISSIONS:
        raise ValueError(f"{permission} is not a permission of the catalogue")
    if permission == ALWAYS_GRANTED:
        return scopes_of_member(principal)
    roles = RolePermission.objects.filter(permission=permission).values("role_id")
    return Scope.objects.filter(_covered_by(_assignments(principal).filter(role__in=roles)))


def scopes_of_member(principal: Principal) -> QuerySet[Scope]:
    """Return the scopes that the principal belongs to: where any role is assigned, all below, all above."""
    assignments = _assignments(principal)
    parents = assignments.values("scope__parent_id")
    grandparents = assignments.values("scope__parent__parent_id")
    return Scope.objects.filter(_covered_by(assignments) | Q(pk__in=parents) | Q(pk__in=grandparents))


def at_or_below(scope: Scope, path: str = "scope") -> Q:
    """Return the condition that a row hangs on `scope` or on one below it; `path` leads to the row's scope.

    By keys, never by the text of paths: SQLite's LIKE takes "Demo" for "demo".
    """
    if scope.kind == Scope.Kind.ACCOUNT:
        return Q(**{f"{path}__isnull": False})
    if scope.kind == Scope.Kind.PROJECT:
        return Q(**{path: scope.pk})
    return Q(**{f"{path}__in": Scope.objects.filter(Q(pk=scope.pk) | Q(parent=scope)).values("pk")})


def permissions_at(principal: Principal, thing: Scoped) -> frozenset[str]:
    """Return every permission that the principal has on `thing`; one query, for pages that ask for many."""
    covering = Q(scope=_scope_id(thing))
    covering |= Q(scope__children=_scope_id(thing)) | Q(scope__children__children=_scope_id(thing))
    roles = _assignments(principal).filter(covering).values("role_id")
    granted = RolePermission.objects.filter(role__in=roles).values_list("permission", flat=True)
    found = frozenset(granted) & frozenset(PERMISSIONS)
    return found | {ALWAYS_GRANTED} if found else found


def permissions_anywhere(principal: Principal) -> frozenset[str]:
    """Return every permission that the principal has in any scope; one query, for pages that ask for many."""
    roles = _assignments(principal).values("role_id")
    granted = RolePermission.objects.filter(role__in=roles).values_list("permission", flat=True)
    found = frozenset(granted) & frozenset(PERMISSIONS)
    return found | {ALWAYS_GRANTED} if found else found


def _assignments(principal: Principal) -> QuerySet[RoleAssignment]:
    """Return the assignments that count now: the user is active (read afresh) and they have not expired."""
    if not isinstance(principal, User) or principal.pk is None:
        return RoleAssignment.objects.none()
    groups = UserGroup.users.through.objects.filter(user=principal.pk, user__is_active=True)
    mine = Q(user=principal.pk, user__is_active=True) | Q(group__in=groups.values("usergroup_id"))
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    return RoleAssignment.objects.filter(mine, current)


def _covered_by(assignments: QuerySet[RoleAssignment]) -> Q:
    # The tree is three levels deep, so "at or below" is three look-ups and no recursion.
    at = assignments.values("scope_id")
    return Q(pk__in=at) | Q(parent__in=at) | Q(parent__parent__in=at)


def _scope_id(thing: Scoped) -> Any:
    if isinstance(thing, Scope):
        return thing.pk
    return getattr(thing, "scope_id", None) or thing.scope.pk
