"""Mark of a database whose restore is not finished; with it, nothing starts and nothing acts."""

from django.db import DatabaseError, connection

from web.http.outages import DatabaseNotUsable

MARK_TABLE = "slipway_unfinished_restore"


class UnfinishedRestoreError(SystemExit):
    """Error raised at the start of a process on a database whose restore did not finish."""


def get_mark_condition() -> str:
    """Return the SQL condition that holds in a database with the mark."""
    if connection.vendor == "postgresql":
        return f"to_regclass('{MARK_TABLE}') IS NOT NULL"
    return f"EXISTS (SELECT 1 FROM sqlite_master WHERE name = '{MARK_TABLE}')"  # noqa: S608 - our own name


def find_unfinished_restore() -> str:
    """Return why this database must not be used, or an empty text."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {get_mark_condition()}")
        if not cursor.fetchone()[0]:
            return ""
        cursor.execute(f"SELECT backup, started_at FROM {MARK_TABLE}")  # noqa: S608 - our own name
        row = cursor.fetchone()
    backup, started_at = row or ("an unknown backup", "an unknown time")
    return (
        f"The restore of {backup} into this database began at {started_at} and did not finish. "
        "Run manage restore again; it starts from the beginning."
    )


def require_finished_restore() -> None:
    """Raise `DatabaseNotUsable` while a restore of this database is unfinished."""
    if reason := find_unfinished_restore():
        raise DatabaseNotUsable(reason)


def refuse_unfinished_restore() -> None:
    """Raise `UnfinishedRestoreError` if this database must not be used; one that is away is no reason."""
    try:
        reason = find_unfinished_restore()
    except DatabaseError:
        return
    finally:
        if not connection.in_atomic_block:
            connection.close()
    if reason:
        raise UnfinishedRestoreError(f"Slipway cannot start. {reason}")


def list_tables() -> set[str]:
    """Return the tables of the database."""
    with connection.cursor() as cursor:
        return set(connection.introspection.table_names(cursor))


def build_mark_statements(backup: str, started_at: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the statements that mark a database."""
    mark = "%s" if connection.vendor == "postgresql" else "?"
    return [
        (f"DROP TABLE IF EXISTS {MARK_TABLE}", ()),
        (f"CREATE TABLE {MARK_TABLE} (backup text NOT NULL, started_at text NOT NULL)", ()),
        (f"INSERT INTO {MARK_TABLE} VALUES ({mark}, {mark})", (backup, started_at)),  # noqa: S608
    ]


def remove_mark() -> None:
    """Remove the mark, in the transaction that finishes the restore."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {MARK_TABLE}")
