"""Rows and sizes of database tables, without reading large tables."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, connection, transaction

# More rows than this are estimated.
COUNTED_ROWS: Final = 10_000
# SQLite reads each page of the file for the size of its tables.
MOST_MEASURED_BYTES: Final = 512 * 2**20
# A partitioned table has nothing of its own: the value of each partition counts.
_POSTGRESQL_SUM: Final = """
    SELECT relname, sum({value})::bigint
    FROM pg_class, LATERAL (
        SELECT pg_class.oid AS part UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = pg_class.oid
    ) parts
    WHERE relkind IN ('r', 'p') AND pg_table_is_visible(pg_class.oid) AND relname = ANY(%s) GROUP BY relname
"""


@dataclass(frozen=True)
class TableSize:
    """Size of one table with its indexes; `bytes` is None where measuring it would take long."""

    rows: int
    is_estimate: bool
    bytes: int | None


def measure_tables(names: Collection[str]) -> dict[str, TableSize]:
    """Return the sizes of these tables; three queries, however large they are."""
    ordered = sorted(names)
    counts = _count_rows(ordered)
    large = [name for name in ordered if counts[name] > COUNTED_ROWS]
    is_postgresql = connection.vendor == "postgresql"
    estimates = (_read_postgresql_estimates if is_postgresql else _read_sqlite_estimates)(large)
    sizes = (_read_postgresql_sizes if is_postgresql else _read_sqlite_sizes)(ordered)
    return {
        name: TableSize(
            rows=max(counts[name], estimates.get(name, 0)),
            is_estimate=name in large,
            bytes=sizes.get(name),
        )
        for name in ordered
    }


def _count_rows(names: Collection[str]) -> dict[str, int]:
    """Return the rows of each table, up to one more than are counted."""
    parts = (
        f"SELECT '{name}', count(*) FROM (SELECT 1 FROM {_quote(name)} LIMIT {COUNTED_ROWS + 1}) rows"  # noqa: S608
        for name in names
    )
    return _read_pairs(" UNION ALL ".join(parts))


def _read_postgresql_estimates(names: Collection[str]) -> dict[str, int]:
    return _read_pairs(_POSTGRESQL_SUM.format(value="coalesce(pg_stat_get_live_tuples(part), 0)"), names)


def _read_postgresql_sizes(names: Collection[str]) -> dict[str, int]:
    return _read_pairs(_POSTGRESQL_SUM.format(value="pg_total_relation_size(part)"), names)


def _read_sqlite_estimates(names: Collection[str]) -> dict[str, int]:
    """Return the distance of the first and last row number, which deletions in between leave too large."""
    parts = (
        f"SELECT '{name}', (SELECT max(rowid) FROM {table}) - (SELECT min(rowid) FROM {table}) + 1"  # noqa: S608
        for name, table in ((name, _quote(name)) for name in names)
    )
    return _read_pairs(" UNION ALL ".join(parts)) if names else {}


def _read_sqlite_sizes(names: Collection[str]) -> dict[str, int]:
    """Return the sizes, none for a file that is too large, or where SQLite was built without this table."""
    file_bytes = _read_pairs(
        "SELECT 'file', page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    )
    if file_bytes["file"] > MOST_MEASURED_BYTES:
        return {}
    sizes = (
        "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) "
        "WHERE aggregate = TRUE GROUP BY tbl_name"
    )
    try:
        with transaction.atomic():
            return {name: size for name, size in _read_pairs(sizes).items() if name in names}
    except DatabaseError:
        return {}


def _quote(name: str) -> str:
    return connection.ops.quote_name(name)


def _read_pairs(statement: str, names: Collection[str] | None = None) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, None if names is None else [list(names)])
        return dict(cursor.fetchall())
