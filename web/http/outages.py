"""Detection of outages of database, broker and disk, and of writes that may be skipped in one."""

import errno
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.http import HttpRequest
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

# Possible exceptions of an outage; `is_outage` decides.
_BROKER_ERRORS = (RedisConnectionError, RedisTimeoutError, BrokerError)
OUTAGE_ERRORS = (OperationalError, InterfaceError, *_BROKER_ERRORS, ResponseError, OSError)
RETRY_AFTER_SECONDS = 5
OUTAGE_MESSAGE = "The database or the broker does not respond. No data was lost. Try again in a few seconds."
DISK_FULL_MESSAGE = (
    "The disk of the database, the broker or the server is full. Changes cannot be saved until an "
    "administrator frees space. Stored data remains readable."
)
# No connection, too many of them, a server that ends or starts, a lock or query that takes too long.
_TRANSIENT_SQLSTATES = ("08", "53", "57014", "57P", "25P03", "40001", "40P01", "55P03")
_TRANSIENT_SQLITE_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED")
# A write that no space is left for; the last one: the memory that readers share lies in a file too.
_DISK_FULL_SQLITE_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_DISK_FULL_SQLSTATE = "53100"
# So Redis and Valkey begin the refusal of a write that they could not keep.
_DISK_FULL_BROKER_PREFIX = "MISCONF"
_SHORT_BUSY_TIMEOUT_MS: Final = 200
_MINUTE_SECONDS: Final = 60.0
logger = logging.getLogger(__name__)


class DatabaseNotUsable(OperationalError):
    """Error raised instead of a change to a database that is being restored; the message says why.

    For whoever waits or tries again, it is an outage.
    """


def is_outage(error: BaseException | None) -> bool:
    """Return whether a retry could succeed a little later, or with free disk space."""
    if isinstance(error, _BROKER_ERRORS) or is_disk_full(error):
        return True
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return _get_sqlite_error_name(cause).startswith(_TRANSIENT_SQLITE_ERRORS)
    if isinstance(cause, psycopg.Error) and cause.sqlstate:
        return cause.sqlstate.startswith(_TRANSIENT_SQLSTATES)
    # Without a state the server did not respond: no connection, or no free one in time.
    return isinstance(error, OperationalError | InterfaceError)


def is_interruption(error: BaseException) -> bool:
    """Return whether an outage or Celery's time limit cut a task short, which is no fault of its work."""
    return isinstance(error, SoftTimeLimitExceeded) or is_outage(error)


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether a disk had no space left."""
    if isinstance(error, ResponseError):
        return str(error).startswith(_DISK_FULL_BROKER_PREFIX)
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL_ERRNOS
    cause = error.__cause__ if isinstance(error, DatabaseError) else None
    if isinstance(cause, sqlite3.Error):
        return _get_sqlite_error_name(cause).startswith(_DISK_FULL_SQLITE_ERRORS)
    return isinstance(cause, psycopg.Error) and cause.sqlstate == _DISK_FULL_SQLSTATE


def describe_outage(error: BaseException | None) -> str:
    """Return the message of an outage for the caller."""
    if isinstance(error, DatabaseNotUsable):
        return str(error)
    return DISK_FULL_MESSAGE if is_disk_full(error) else OUTAGE_MESSAGE


def log_outage(error: BaseException, request: HttpRequest | None = None) -> None:
    """Log why requests are answered 503, and mark this one: the framework need not log each of them."""
    if request is not None:
        request.is_outage = True  # type: ignore[attr-defined]
    logger.error("Requests are answered 503. %s (%s)", describe_outage(error), error)


@contextmanager
def optional_write(what: str) -> Iterator[None]:
    """Run an optional write outside of any transaction, and ignore an outage, which the log tells.

    On SQLite, where all writers share one lock, the wait is short.
    """
    try:
        with _short_busy_timeout():
            yield
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Not written this time: %s (%s)", what, error)


@contextmanager
def _short_busy_timeout() -> Iterator[None]:
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    database = connection.connection
    (usual,) = database.execute("PRAGMA busy_timeout").fetchone()
    database.execute(f"PRAGMA busy_timeout = {_SHORT_BUSY_TIMEOUT_MS}")
    try:
        yield
    finally:
        database.execute(f"PRAGMA busy_timeout = {usual}")


def _get_sqlite_error_name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


class OutageLogFilter(logging.Filter):
    """Log filter that passes each outage once a minute without a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        if getattr(getattr(record, "request", None), "is_outage", False):
            return False
        if not any(isinstance(error, OUTAGE_ERRORS) and is_outage(error) for error in _list_errors(record)):
            return True
        record.exc_info = record.exc_text = None
        line, now = (record.name, str(record.msg)), time.monotonic()
        if now - self._last.get(line, -_MINUTE_SECONDS) < _MINUTE_SECONDS:
            return False
        self._last[line] = now
        return True


def _list_errors(record: logging.LogRecord) -> Iterable[object]:
    yield from record.args if isinstance(record.args, tuple) else ()
    if record.exc_info:
        yield record.exc_info[1]
