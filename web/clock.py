"""The clock that all processes share."""

from datetime import UTC, datetime

from django.db import connection


def database_now() -> datetime:
    """The time by the database's clock; on SQLite that is this machine's."""
    if connection.vendor == "sqlite":
        return datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
