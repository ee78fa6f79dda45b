"""Conditions on the tree of scopes. It is three levels deep, so they are look-ups and no recursion."""

from django.db.models import Q, QuerySet

from rbac.models import RoleAssignment, Scope
from rbac.policy.sealed import sealed


def at_or_below(scope: Scope, path: str = "scope") -> Q:
    """Return the condition that a row hangs on `scope` or on one below it; `path` leads to the row's scope.

    By keys, never by the text of paths: SQLite's LIKE takes "Demo" for "demo".
    """
    if scope.kind == Scope.Kind.ACCOUNT:
        return Q(**{f"{path}__isnull": False})
    if scope.kind == Scope.Kind.PROJECT:
        return Q(**{path: scope.pk})
    return Q(**{f"{path}__in": Scope.objects.filter(Q(pk=scope.pk) | Q(parent=scope)).values("pk")})


def live(path: str = "") -> Q:
    """Return the condition that neither a scope nor one above it is archived; `path` leads to the scope."""
    ways = ("", "parent__", "parent__parent__")
    return Q(**{f"{path}{way}archived_at__isnull": True for way in ways})


def covered_by(assignments: QuerySet[RoleAssignment]) -> Q:
    """Return the condition that a scope lies at or below that of an assignment."""
    at = sealed(assignments.values("scope_id"))
    return Q(pk__in=at) | Q(parent__in=at) | Q(parent__parent__in=at)


def above_of(assignments: QuerySet[RoleAssignment]) -> Q:
    """Return the condition that a scope lies above that of an assignment, which must be live itself."""
    alive = assignments.filter(live("scope__"))
    parents, tops = alive.values("scope__parent_id"), alive.values("scope__parent__parent_id")
    return Q(pk__in=sealed(parents)) | Q(pk__in=sealed(tops))


def covers(scope: int) -> Q:
    """Return the condition that an assignment is at the scope with this key, or above it."""
    above = Scope.objects.filter(Q(pk=scope) | Q(children=scope) | Q(children__children=scope))
    return Q(scope__in=above.values("pk"))


def looks_up_to(scope: int) -> Q:
    """Return the condition that an assignment is below the scope with this key, where nothing is archived."""
    below = Scope.objects.filter(live(), Q(parent=scope) | Q(parent__parent=scope))
    return Q(scope__in=below.values("pk"))


def at_or_below_key(key: int) -> Q:
    """Return the condition that a scope is the one with this key, or lies below it."""
    return Q(pk=key) | Q(parent=key) | Q(parent__parent=key)


def above_key(key: int) -> Q:
    """Return the condition that a scope lies above the one with this key, which must be live itself."""
    alive = Scope.objects.filter(live(), pk=key)
    return Q(pk__in=alive.values("parent_id")) | Q(pk__in=alive.values("parent__parent_id"))
