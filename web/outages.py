"""Tells a database or broker that is away for a while from a mistake in Slipway."""

import sqlite3

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

# What an outage may look like; which of these are one, `is_outage` says.
_BROKER = (RedisConnectionError, RedisTimeoutError, BrokerError)
OUTAGES = (OperationalError, InterfaceError, *_BROKER)
RETRY_AFTER_SECONDS = 5
SENTENCE = (
    "The database or the broker does not answer just now. Nothing was lost; try again in a few seconds."
)
# No connection, too many of them, a server that ends or starts, a lock or query that takes too long.
_PASSING_STATES = ("08", "53", "57014", "57P", "25P03", "40001", "40P01", "55P03")
_PASSING_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED")


def is_outage(error: BaseException | None) -> bool:
    """Whether the same thing would succeed if it were tried again a little later."""
    if isinstance(error, _BROKER):
        return True
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorname", "").startswith(_PASSING_SQLITE)
    if isinstance(cause, psycopg.Error) and cause.sqlstate:
        return cause.sqlstate.startswith(_PASSING_STATES)
    # Without a state there was nobody to give one: no connection, or none that was free in time.
    return isinstance(error, OperationalError | InterfaceError)
