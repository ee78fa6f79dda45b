"""Scope tree: lineages of scopes, and query conditions on it."""

from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet

from rbac.models import Scope
from rbac.policy.compiled_queries import ANY_KEY, fetch_compiled

# The keys of an active scope and of its ancestors, in this order.
Lineage = tuple[int, ...]

_ANCESTORS = ("", "parent__", "parent__parent__")


def get_scope_lineages(scope: int | None = None) -> dict[int, Lineage]:
    """Return the lineages of all active scopes, or of the active scope with this key; one query."""
    rows = fetch_compiled(_build_tree_query) if scope is None else fetch_compiled(_build_scope_query, scope)
    return {pk: tuple(key for key in (pk, *above) if key is not None) for pk, *above in rows}


def _build_tree_query() -> QuerySet[Scope, tuple[Any, ...]]:
    rows = Scope.objects.filter(build_not_archived_filter())
    return rows.values_list("pk", "parent_id", "parent__parent_id")


def _build_scope_query() -> QuerySet[Scope, tuple[Any, ...]]:
    return _build_tree_query().filter(pk=ANY_KEY)


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
    return Q(**{f"{path}{way}archived_at__isnull": True for way in _ANCESTORS})


def find_archived_scope(scope: Scope) -> Scope | None:
    """Return the highest archived scope at or above `scope`; None if none is archived."""
    archived, at = None, scope
    while at.parent is not None:
        if at.archived_at is not None:
            archived = at
        at = at.parent
    return archived


def get_nearest_active_scope(scope: Scope) -> Scope:
    """Return `scope`, or for an archived one the scope above where restoring it needs permission."""
    archived = find_archived_scope(scope)
    return scope if archived is None or archived.parent is None else archived.parent


def build_ancestor_filter(scopes: frozenset[int]) -> Q:
    """Return the condition that an active scope is one of `scopes` or below one of them."""
    condition = reduce(or_, (Q(**{f"{way}pk__in": sorted(scopes)}) for way in _ANCESTORS))
    return condition & build_not_archived_filter()
