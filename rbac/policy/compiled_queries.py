"""Queries that every request makes: Django compiles their SQL once, which takes longer than their answer."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

# Placeholders of a compiled query for a primary key and for the time of each run.
ANY_KEY: Final = -1
ANY_MOMENT: Final = datetime(2000, 1, 1, tzinfo=UTC)

QueryBuilder = Callable[[], QuerySet[Any, tuple[Any, ...]]]


def fetch_compiled(build_query: QueryBuilder, key: int = ANY_KEY) -> list[tuple[Any, ...]]:
    """Return the rows of a query with `key` for `ANY_KEY`, and with the time now for `ANY_MOMENT`.

    The columns are as the database's driver returns them.
    """
    sql, parameters = _compile(build_query, connection.vendor)
    values = {ANY_KEY: key, _adapt_moment(ANY_MOMENT): _adapt_moment(timezone.now())}
    with connection.cursor() as cursor:
        cursor.execute(sql, [values.get(parameter, parameter) for parameter in parameters])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@cache
def _compile(build_query: QueryBuilder, vendor: str) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL and the parameters for the database of `vendor`, placeholders among them."""
    sql, parameters = build_query().query.sql_with_params()
    return sql, tuple(parameters)


def _adapt_moment(moment: datetime) -> Any:
    """Return a moment as the database's driver takes it."""
    return connection.ops.adapt_datetimefield_value(moment)
