"""Django's `flush`, tried again where a process of the test's own stood in its way."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import flush
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from rbac.append_only import triggers_to_add, triggers_to_drop
from web.outages import is_outage

TRIES = 8


class Command(flush.Command):
    """A manager that runs beside the tests may be inside a transaction; PostgreSQL ends one of the two."""

    def handle(self, **options: Any) -> None:
        for tried in range(1, TRIES + 1):
            try:
                with _unguarded(connections[options["database"]]):
                    super().handle(**options)
            except CommandError as error:
                if tried == TRIES or not is_outage(error.__cause__):
                    raise
                time.sleep(0.1 * tried)
            else:
                return


@contextmanager
def _unguarded(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the audit trail be emptied: it refuses to be, for the product."""
    if connection.vendor == "postgresql":
        # For this session alone, and without a lock on the table; only a superuser may.
        _run(connection, ["SET session_replication_role = replica"])
        try:
            yield
        finally:
            _run(connection, ["SET session_replication_role = origin"])
        return
    with transaction.atomic(using=connection.alias):
        _run(connection, triggers_to_drop(connection))
        yield
        _run(connection, triggers_to_add(connection))


def _run(connection: BaseDatabaseWrapper, statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
