"""Query conditions on the scope tree, and subqueries compiled to SQL once."""

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from rbac.models import RoleAssignment, Scope


def compile_subquery(values: "QuerySet[Any, Any]") -> Any:
    """Return the single column of `values` as compiled SQL for an `__in` lookup.

    Django clones and relabels a nested queryset for each lookup and outer query. Only for queries without
    `OuterRef`.
    """
    try:
        sql, params = values.order_by().query.sql_with_params()
    except EmptyResultSet:
        return values
    return RawSQL(sql, params)  # noqa: S611 - of Django's own making


def build_below_filter(scope: Scope, path: str = "scope") -> Q:
    """Return the condition that a row hangs on `scope` or on one below it; `path` leads to the row's scope.

    By keys, never by the text of paths: SQLite's LIKE takes "Demo" for "demo".
    """
    if scope.kind == Scope.Kind.ACCOUNT:
        return Q(**{f"{path}__isnull": False})
    if scope.kind == Scope.Kind.PROJECT:
        return Q(**{path: scope.pk})
    return Q(**{f"{path}__in": Scope.objects.filter(Q(pk=scope.pk) | Q(parent=scope)).values("pk")})


def build_not_archived_filter(path: str = "") -> Q:
    """Return the condition that neither a scope nor one above it is archived; `path` leads to the scope."""
    ways = ("", "parent__", "parent__parent__")
    return Q(**{f"{path}{way}archived_at__isnull": True for way in ways})


def build_covered_filter(assignments: QuerySet[RoleAssignment]) -> Q:
    """Return the condition that a scope is at or below that of an assignment."""
    at = compile_subquery(assignments.values("scope_id"))
    return Q(pk__in=at) | Q(parent__in=at) | Q(parent__parent__in=at)


def build_above_filter(assignments: QuerySet[RoleAssignment]) -> Q:
    """Return the condition that a scope is above that of an assignment, which must be active."""
    alive = assignments.filter(build_not_archived_filter("scope__"))
    parents, tops = alive.values("scope__parent_id"), alive.values("scope__parent__parent_id")
    return Q(pk__in=compile_subquery(parents)) | Q(pk__in=compile_subquery(tops))


def build_covering_assignment_filter(scope: int) -> Q:
    """Return the condition that an assignment is at the scope with this key, or above it."""
    above = Scope.objects.filter(Q(pk=scope) | Q(children=scope) | Q(children__children=scope))
    return Q(scope__in=above.values("pk"))


def build_descendant_assignment_filter(scope: int) -> Q:
    """Return the condition that an assignment is below the scope with this key, where nothing is archived."""
    below = Scope.objects.filter(build_not_archived_filter(), Q(parent=scope) | Q(parent__parent=scope))
    return Q(scope__in=below.values("pk"))


def build_below_id_filter(key: int) -> Q:
    """Return the condition that a scope has this key, or is below it."""
    return Q(pk=key) | Q(parent=key) | Q(parent__parent=key)


def build_above_id_filter(key: int) -> Q:
    """Return the condition that a scope is above the one with this key, which must be active."""
    alive = Scope.objects.filter(build_not_archived_filter(), pk=key)
    return Q(pk__in=alive.values("parent_id")) | Q(pk__in=alive.values("parent__parent_id"))
