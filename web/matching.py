"""How a text is searched for inside a column."""

from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Value
from django.db.models.sql.compiler import SQLCompiler


def holds(column: str, text: str) -> Func:
    """The condition that `column` has `text` anywhere in it, in whatever case; for `filter` and `Q`.

    Django's own compares in capitals, of which PostgreSQL keeps no statistics: it then expects a handful of
    rows whatever is asked for. With ILIKE it knows a common text, and reads on in order until a page is full.
    """
    pattern = Value(f"%{connection.ops.prep_for_like_query(text)}%")
    return (_HoldsAscii if text.isascii() else _Holds)(F(column), pattern)


class _Holds(Func):
    template, arg_joiner, arity = "(%(expressions)s)", " ILIKE ", 2
    output_field = BooleanField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> Any:
        """Where LIKE is of any case, and has to be told what escapes."""
        return self.as_sql(
            compiler, connection, template="(%(expressions)s ESCAPE '\\')", arg_joiner=" LIKE ", **more
        )


class _HoldsAscii(_Holds):
    # By the rules of a language PostgreSQL turns each row into wide characters to compare it; the letters of
    # ASCII are the same without, in half the time.
    template = '(%(expressions)s COLLATE "C")'
