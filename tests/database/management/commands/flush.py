"""A quick `flush`, tried again where a process of the test's own stood in its way."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import flush
from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.database.rows import OF_DJANGO, empty
from web.http.outages import is_outage

TRIES = 8


class Command(flush.Command):
    """A manager that runs beside the tests may be inside a transaction; PostgreSQL ends one of the two."""

    def handle(self, **options: Any) -> None:
        for tried in range(1, TRIES + 1):
            try:
                self._empty(connections[options["database"]], options)
            except (CommandError, OperationalError) as error:
                if tried == TRIES or not is_outage(
                    error.__cause__ if isinstance(error, CommandError) else error
                ):
                    raise
                time.sleep(0.1 * tried)
            else:
                return

    def _empty(self, connection: BaseDatabaseWrapper, options: dict[str, Any]) -> None:
        if connection.vendor == "sqlite":
            empty()
            return
        with _unguarded(connection):
            _delete_rows(connection)


def _delete_rows(connection: BaseDatabaseWrapper) -> None:
    """Delete all rows but those that Django fills after each migration; TRUNCATE of all takes a second.

    The lock waits for transactions of other processes, whose rows would come back otherwise.
    """
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = [connection.ops.quote_name(name) for name in sorted(set(names) - OF_DJANGO)]
    questions = [f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
        cursor.execute(" UNION ALL ".join(questions))
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {table}")


@contextmanager
def _unguarded(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the audit trail be emptied: it refuses to be, for the product.

    For this session alone, and without a lock on the table; only a superuser may.
    """
    _run(connection, "SET session_replication_role = replica")
    try:
        yield
    finally:
        _run(connection, "SET session_replication_role = origin")


def _run(connection: BaseDatabaseWrapper, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
