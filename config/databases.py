"""Database settings: URL parsing, timeouts and connection pool."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

IDLE_TRANSACTION_TIMEOUT_MS, LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS = 60_000, 5_000, 30_000


def build_database_settings(address: str, home: Path) -> dict[str, Any]:
    """Return the settings of a database URL, or of the database in the state folder."""
    url = urlsplit(address or f"sqlite:///{home / 'slipway.sqlite3'}")
    return _build_sqlite_settings(url.path) if url.scheme == "sqlite" else _build_postgres_settings(url)


def _build_sqlite_settings(path: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path if path.startswith("//") is False else path[1:],
        # Writers queue for the lock at BEGIN; a deferred transaction would fail in the middle instead.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        },
    }


def keep_sqlite_open(database: Mapping[str, Any]) -> sqlite3.Connection | None:
    """Hold a SQLite database open, so that it stays readable on a full disk.

    SQLite deletes its auxiliary files with the last connection, and could not create them again.
    """
    if not database["ENGINE"].endswith("sqlite3") or not Path(database["NAME"]).exists():
        return None
    connection = sqlite3.connect(database["NAME"], check_same_thread=False)
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    return connection


def _build_postgres_settings(url: SplitResult) -> dict[str, Any]:
    options = dict(parse_qsl(url.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url.path.lstrip("/")),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname or options.pop("host", ""),
        "PORT": str(url.port or ""),
        # The pool tests a connection before handing it out.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 3,
            "tcp_user_timeout": 15_000,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            # A process that hangs inside a transaction must release its row locks.
            "options": f"-c idle_in_transaction_session_timeout={IDLE_TRANSACTION_TIMEOUT_MS}",
            "application_name": "slipway",
            # Further options of libpq: sslmode, sslrootcert and so on.
            **options,
        },
    }


def build_web_options(database: Mapping[str, Any], pool_size: int) -> dict[str, Any]:
    """Return the database options of web processes: short timeouts and, for PostgreSQL, a pool.

    Under ASGI, one connection per request costs two thirds of the throughput (`asgi.py`). If the wait for a
    connection or server is too long, the response is 503 (`web.http.outages`).
    """
    if not database["ENGINE"].endswith("postgresql"):
        return {"timeout": LOCK_TIMEOUT_MS / 1000}
    return {
        "pool": {
            "min_size": 1,
            "max_size": pool_size,
            "max_waiting": 100,
            "timeout": 5.0,
            "reconnect_timeout": 2.0,
        },
        "application_name": "slipway web",
        # A user waits for the response: an early error is better, and frees the connection.
        "options": f"{database['OPTIONS'].get('options', '')} -c lock_timeout={LOCK_TIMEOUT_MS}"
        f" -c statement_timeout={STATEMENT_TIMEOUT_MS}",
    }
