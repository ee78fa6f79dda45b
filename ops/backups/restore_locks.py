"""Lock that lets one restore at a time work on a database."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from django.db import connection

from ops.backups.manifests import BackupError

# The key of the advisory lock: any number that nothing else in this database uses.
_LOCK_KEY: Final = 0x51_1B_A7
_REFUSAL: Final = "Another restore into this database is running. Wait until it ends."


@contextmanager
def hold_restore_lock() -> Iterator[None]:
    """Hold the lock until the block, or the process, ends. Raises `BackupError` if it is taken."""
    with _hold_advisory_lock() if connection.vendor == "postgresql" else _hold_file_lock():
        yield


@contextmanager
def _hold_advisory_lock() -> Iterator[None]:
    # In a session of its own: a restore closes its connection in between.
    session = connection.copy()
    # One of its own, not of a pool, which would keep the session and with it the lock.
    session.settings_dict["OPTIONS"].pop("pool", None)
    try:
        with session.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK_KEY])
            if not cursor.fetchone()[0]:
                raise BackupError(_REFUSAL)
        yield
    finally:
        session.close()


@contextmanager
def _hold_file_lock() -> Iterator[None]:
    database = Path(str(connection.settings_dict["NAME"]))
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with database.with_name(f"{database.name}.restore-lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise BackupError(_REFUSAL) from exc
        yield
