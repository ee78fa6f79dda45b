"""Dumps of the database with its own tools: pg_dump and pg_restore, or SQLite's backup."""

import fcntl
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from django.db import DatabaseError, connection, transaction

from ops.backups.manifests import BackupError
from ops.backups.postgres_clients import find_client, run_client
from ops.backups.unfinished import MARK_TABLE, build_mark_statements, list_tables

# Options of Django and psycopg, which libpq does not know.
_NO_LIBPQ_OPTIONS: Final = {"pool", "isolation_level", "server_side_binding", "assume_role"}
_PARTIAL_SUFFIX: Final = ".restoring"
_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# Bytes that a reader of SQLite locks, in WAL mode as long as it is connected: SHARED_FIRST and SHARED_SIZE in
# https://github.com/sqlite/sqlite/blob/master/src/os.h
_READER_LOCK_START, _READER_LOCK_BYTES = 0x40000002, 510
# Files beside a database that SQLite would apply to one of the same name.
_COMPANIONS: Final = ("-wal", "-shm", "-journal")


def dump_database(dump: Path) -> None:
    """Write a consistent dump while Slipway runs. Raises `BackupError`, also for a damaged database."""
    if connection.vendor == "postgresql":
        options = ["--format=custom", "--no-owner", "--no-privileges", f"--file={dump}"]
        _run_postgres_program("pg_dump", *options)
        return
    try:
        with closing(sqlite3.connect(_get_sqlite_path())) as source, closing(sqlite3.connect(dump)) as target:
            source.backup(target)
    except sqlite3.Error as exc:
        raise BackupError(f"The database could not be copied to {dump}: {exc}.") from exc
    # SQLite copies pages as they are, damaged ones too.
    if damage := _find_damage(dump):
        raise BackupError(f"The database is damaged, so it was not backed up: {damage}.")


def require_loadable(dump: Path) -> None:
    """Raise `BackupError` if the dump is damaged, or pg_restore is missing here or cannot read it."""
    if connection.vendor == "postgresql":
        run_client(_find_client("pg_restore"), "--list", str(dump))
    elif damage := _find_damage(dump):
        raise BackupError(f"{dump} is the copy of a damaged database: {damage}.")


def _find_damage(dump: Path) -> str:
    """Return what SQLite finds wrong in a copy of a database, or an empty text."""
    try:
        # Immutable: no file is created beside it, which may be on a read-only disk.
        with closing(sqlite3.connect(f"{dump.resolve().as_uri()}?immutable=1", uri=True)) as copy:
            (result,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as exc:
        return str(exc)
    return "" if result == "ok" else str(result)


def load_dump(dump: Path, backup: str, started_at: str) -> None:
    """Replace the content of the database, which is marked as unfinished from the first change on.

    Raises `BackupError`; then too the database stays marked, or as it was.
    """
    if connection.vendor == "postgresql":
        _clear_postgres(backup, started_at)
        options = [
            "--no-owner",
            "--no-privileges",
            "--no-comments",
            "--exit-on-error",
            "--single-transaction",
        ]
        _run_postgres_program("pg_restore", *options, str(dump))
    else:
        _replace_sqlite(dump, backup, started_at)


def is_damaged(error: DatabaseError) -> bool:
    """Return whether SQLite cannot read its file any more."""
    cause = error.__cause__
    return isinstance(cause, sqlite3.Error) and _names_damage(cause)


def _names_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(_DAMAGE)


def is_database_empty() -> bool:
    """Return whether the database has no tables but the mark."""
    return not list_tables() - {MARK_TABLE}


def _clear_postgres(backup: str, started_at: str) -> None:
    """Drop all tables and functions of the schema, and leave the mark, in one transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '10s'")
        for name in sorted(list_tables()):
            cursor.execute(f"DROP TABLE IF EXISTS {connection.ops.quote_name(name)} CASCADE")
        cursor.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p "
            "WHERE p.pronamespace = current_schema()::regnamespace "
            "AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')"
        )
        for (signature,) in cursor.fetchall():
            cursor.execute(f"DROP FUNCTION IF EXISTS {signature} CASCADE")
        for statement, values in build_mark_statements(backup, started_at):
            cursor.execute(statement, values)
    connection.close()


def _run_postgres_program(name: str, *arguments: str) -> None:
    run_client(_find_client(name), *arguments, parameters=_build_libpq_parameters())


def _find_client(name: str) -> Path:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        (number,) = cursor.fetchone()
    return find_client(name, int(number) // 10_000)


def _build_libpq_parameters() -> dict[str, str]:
    database = connection.settings_dict
    named = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}
    parameters = {name: str(database[key]) for name, key in named.items() if database.get(key)}
    options: dict[str, Any] = database["OPTIONS"]
    return {
        **{name: str(value) for name, value in options.items() if name not in _NO_LIBPQ_OPTIONS},
        **parameters,
    }


def _get_sqlite_path() -> Path:
    return Path(str(connection.settings_dict["NAME"]))


def _replace_sqlite(dump: Path, backup: str, started_at: str) -> None:
    """Replace the file by a marked copy of the dump, at one moment."""
    path = _get_sqlite_path()
    partial = path.with_name(f"{path.name}{_PARTIAL_SUFFIX}")
    connection.close()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Private from its first byte on: the folder may be open to others.
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    shutil.copyfile(dump, partial)
    with closing(sqlite3.connect(partial)) as copy:
        with copy:
            for statement, values in build_mark_statements(backup, started_at):
                copy.execute(statement, values)
        copy.execute("PRAGMA journal_mode = DELETE")
    _leave_write_ahead_log(path)
    sync_to_disk(partial)
    partial.replace(path)
    sync_to_disk(path.parent)


def sync_to_disk(*paths: Path) -> None:
    """Return when the content of these files, or the names in these folders, would survive a power cut."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _leave_write_ahead_log(path: Path) -> None:
    """Merge the log of the old file: SQLite would apply it to the new one. Raises `BackupError` if in use.

    The log of a damaged file, which takes none any more, is deleted.
    """
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=5)) as old:
            (mode,) = old.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.OperationalError as exc:
        raise BackupError(f"{path} is in use ({exc}). Stop all processes of Slipway first.") from exc
    except sqlite3.DatabaseError as exc:
        if not _names_damage(exc):
            raise
        _require_no_readers(path)
        for suffix in _COMPANIONS:
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        return
    if mode != "delete":
        raise BackupError(f"{path} is in use. Stop all processes of Slipway first.")


def _require_no_readers(path: Path) -> None:
    """Raise `BackupError` if another process has opened a database that SQLite itself cannot open."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _READER_LOCK_BYTES, _READER_LOCK_START)
        except OSError as exc:
            raise BackupError(f"{path} is in use. Stop all processes of Slipway first.") from exc
