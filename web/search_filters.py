"""Case-insensitive substring search in database columns."""

from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Value
from django.db.models.sql.compiler import SQLCompiler


def contains_text(column: str, text: str) -> Func:
    """Return the condition that `column` contains `text`, ignoring case; for `filter` and `Q`.

    Django compares upper-case texts, for which PostgreSQL has no statistics: it always expects few rows. With
    ILIKE it recognizes a common text, and reads in order until a page is full.
    """
    pattern = Value(f"%{connection.ops.prep_for_like_query(text)}%")
    return (_ContainsAsciiText if text.isascii() else _ContainsText)(F(column), pattern)


class _ContainsText(Func):
    template, arg_joiner, arity = "(%(expressions)s)", " ILIKE ", 2
    output_field = BooleanField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> Any:
        """Return the SQL for SQLite, where LIKE ignores case and needs an escape character."""
        return self.as_sql(
            compiler, connection, template="(%(expressions)s ESCAPE '\\')", arg_joiner=" LIKE ", **more
        )


class _ContainsAsciiText(_ContainsText):
    # By the rules of a language PostgreSQL turns each row into wide characters to compare it; the letters of
    # ASCII are the same without, in half the time.
    template = '(%(expressions)s COLLATE "C")'
