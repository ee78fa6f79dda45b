"""All rows of the SQLite test database: read, emptied and put back, past every model and quickly."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from django.db import connection, transaction

from delegates.models.delegates import create_first_rows
from rbac.models.audit_entries import list_create_triggers, list_drop_triggers
from rbac.permissions import ensure_builtin_roles

Row = tuple[Any, ...]
Rows = Mapping[str, list[Row]]
# Django fills these after each migration, always with the same: whoever empties a database leaves them.
OF_DJANGO = {"django_migrations", "django_content_type", "auth_permission"}

_columns: dict[str, str] = {}
_migrated: dict[str, list[Row]] = {}
_made: dict[Hashable, tuple[Rows, Rows]] = {}


def _tables() -> Mapping[str, str]:
    """Return the tables with their column lists; a plus sign stops the conversion of dates."""
    if not _columns:
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        for table in sorted(set(names) - OF_DJANGO):
            table_info = _raw().execute(f'PRAGMA table_info("{table}")').fetchall()
            _columns[table] = ", ".join(f'+"{name}"' for _, name, *_ in table_info)
    return _columns


def all_rows() -> Rows:
    """Return all rows of all tables with rows."""
    columns = _tables()
    filled = " UNION ALL ".join(
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in columns
    )
    return {
        table: _query(f'SELECT {columns[table]} FROM "{table}" ORDER BY rowid') for (table,) in _query(filled)
    }


def remember_migrated() -> None:
    """Keep what every installation has after its migrations, for `empty`."""
    ensure_first()
    _migrated.update(all_rows())


def ensure_first() -> None:
    """Put back what the migrations made, where Django's own `flush` may have taken it away."""
    if not _migrated:
        ensure_builtin_roles()
        create_first_rows()


def empty() -> None:
    """Bring the database back to where the migrations left it."""
    with transaction.atomic(), connection.wrap_database_errors:
        _become(all_rows(), _migrated)


def once(key: Hashable, make: Callable[[], None]) -> None:
    """Have `make` fill the database. A second time in this process, what it made then is put in again.

    Only where the database holds what it held then: else `make` is asked again, which is always right.
    """
    if connection.vendor != "sqlite":
        make()
        return
    before = all_rows()
    then, made = _made.get(key, ({}, {}))
    if before == then:
        with transaction.atomic():
            _become(before, made)
        return
    make()
    _made[key] = before, all_rows()


def _become(current: Rows, desired: Rows) -> None:
    """Delete and insert rows until the tables have the desired ones."""
    for table in current.keys() | desired.keys():
        old, new = current.get(table, []), desired.get(table, [])
        if old == new:
            continue
        if new[: len(old)] != old:
            _delete(table)
            old = []
        if added := new[len(old) :]:
            _insert(table, added)


def _insert(table: str, rows: list[Row]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    _raw().executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)


def _delete(table: str) -> None:
    """Delete all rows, those of the audit trail too: it refuses that, for the product."""
    is_final = table == "rbac_auditentry"
    for statement in list_drop_triggers(connection) if is_final else ():
        _raw().execute(statement)
    _raw().execute(f'DELETE FROM "{table}"')
    for statement in list_create_triggers(connection) if is_final else ():
        _raw().execute(statement)


def _query(statement: str) -> list[Row]:
    rows: list[Row] = _raw().execute(statement).fetchall()
    return rows


def _raw() -> Any:
    """The connection below Django's: what is put back was watched and converted the first time."""
    connection.ensure_connection()
    return connection.connection
