"""Subqueries that stand for themselves: made into SQL once, however often and deeply they are asked about."""

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL


def sealed(values: "QuerySet[Any, Any]") -> Any:
    """Return the one column of `values` for an `__in` look-up; the SQL is that of the queryset itself.

    Django copies and renames a queryset again for each look-up that it is in, and for each query around that.
    Only for what speaks of nothing outside: no `OuterRef`.
    """
    try:
        sql, params = values.order_by().query.sql_with_params()
    except EmptyResultSet:
        return values
    return RawSQL(sql, params)  # noqa: S611 - of Django's own making
