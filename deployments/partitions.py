"""Monthly partitions of logs, AWS calls and AWS events on PostgreSQL.

A table is divided by its key: at the start of a month its sequence jumps to the first key of that month. So
the primary key, foreign keys and queries stay as they are, and the rows before the conversion are one
partition, which is attached without being read or copied.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from django.db import connection, transaction

from deployments.models import AwsCall, AwsEvent, LogChunk

PARTITIONED_TABLES: Final = tuple(model._meta.db_table for model in (LogChunk, AwsCall, AwsEvent))
# Keys of one month: 68 thousand million. All keys stay below 2^53, which JavaScript reads exactly.
KEYS_PER_MONTH: Final = 2**36
MONTHS_AHEAD: Final = 2
# Whoever waits for a lock blocks everybody after it: the caller tries again later instead.
LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '2s'"
_LOCK_KEY: Final = 7_316_042_001
_CONSTRAINTS: Final = """
SELECT conname, contype, conrelid::regclass::text, pg_get_constraintdef(oid), convalidated
FROM pg_constraint WHERE {column} = to_regclass(%s) AND contype = ANY(%s) AND conparentid = 0 ORDER BY conname
"""
_INDEXES: Final = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = to_regclass(%s) AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)
ORDER BY 1
"""
_PARTITIONS: Final = """
SELECT child.relname, pg_get_expr(child.relpartbound, child.oid)
FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = to_regclass(%s) ORDER BY 1
"""


class PartitionsUnsupported(RuntimeError):
    """The database has no partitions."""


@dataclass(frozen=True)
class Partition:
    """Partition with the rows of one month, or of all time before `month` if it is the one `before`."""

    name: str
    table: str
    month: int
    is_before: bool = False

    @property
    def end(self) -> int:
        """Return the month after its rows."""
        return self.month if self.is_before else self.month + 1

    @property
    def key_range(self) -> tuple[int, int]:
        """Return the first key, and the first one after it."""
        return (0 if self.is_before else self.month * KEYS_PER_MONTH, self.end * KEYS_PER_MONTH)


def compute_month(day: date) -> int:
    """Return the number of a month, counted from January 1970."""
    return (day.year - 1970) * 12 + day.month - 1


def get_month_start(month: int) -> date:
    """Return the first day of a month by its number."""
    return date(1970 + month // 12, month % 12 + 1, 1)


def require_partitions() -> None:
    """Raise `PartitionsUnsupported` for a database other than PostgreSQL."""
    if connection.vendor != "postgresql":
        raise PartitionsUnsupported(
            "SQLite has no partitions. Its tables are pruned by row, which suits the size of one machine. "
            "To divide them, move to PostgreSQL: set DATABASE_URL."
        )


def is_partitioned(table: str = PARTITIONED_TABLES[-1]) -> bool:
    """Return whether a table is divided; by default the one that is converted last."""
    if connection.vendor != "postgresql":
        return False
    return bool(_read_rows("SELECT 1 FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'p'", table))


def list_partitions(table: str) -> list[Partition]:
    """Return the partitions of a table, the one before all months first."""
    partitions = []
    for name, bounds in _read_rows(_PARTITIONS, table):
        upper = int(bounds.rpartition("(")[2].strip("')")) // KEYS_PER_MONTH
        is_before = "MINVALUE" in bounds
        partitions.append(Partition(name, table, upper if is_before else upper - 1, is_before))
    return sorted(partitions, key=lambda partition: (not partition.is_before, partition.month))


def plan_conversion(today: date) -> Iterator[tuple[str, list[str]]]:
    """Yield each transaction that is left to do: its title, and its statements.

    Raises `PartitionsUnsupported`.
    """
    require_partitions()
    for table in PARTITIONED_TABLES:
        if not is_partitioned(table):
            yield from _plan_table(table, compute_month(today))
        elif statements := plan_months(table, compute_month(today)):
            yield f"Create months of {table}", statements


def convert_tables(today: date) -> Iterator[str]:
    """Do what is left of the conversion, and yield the title of each finished transaction.

    A transaction is done wholly or not at all, so a killed conversion goes on where it was. Raises
    `PartitionsUnsupported`, and `OperationalError` if a lock was not free.
    """
    for title, statements in plan_conversion(today):
        with transaction.atomic(), connection.cursor() as cursor:
            _lock_partitions()
            for statement in statements:
                cursor.execute(statement)
        yield title
    move_sequences(today)


def _plan_table(table: str, month: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the bound of the existing rows, its validation, and the conversion.

    The validation reads the table while it is in use; the conversion then reads nothing.
    """
    bound = f"{table}_before_keys"
    checks = {name: is_valid for name, *_, is_valid in _list_constraints(table, "c")}
    if bound not in checks:
        limit = month * KEYS_PER_MONTH
        check = f"ALTER TABLE {table} ADD CONSTRAINT {bound} CHECK (id < {limit}) NOT VALID"
        yield f"Add the upper bound of {table}", [LOCK_TIMEOUT, check]
    if not checks.get(bound):
        yield f"Validate the upper bound of {table}", [f"ALTER TABLE {table} VALIDATE CONSTRAINT {bound}"]
    yield f"Convert {table}", list(_plan_replacement(table, month, bound))


def _plan_replacement(table: str, month: int, bound: str) -> Iterator[str]:
    before, sequence = f"{table}_before", f"{table}_id_seq"
    limit = _read_bound(table, bound) or month * KEYS_PER_MONTH
    foreign_keys, references = _list_constraints(table, "f"), _list_constraints(table, "f", "confrelid")
    uniques = _list_constraints(table, "u")
    keys, indexes = _list_constraints(table, "p"), _read_rows(_INDEXES, table)
    yield LOCK_TIMEOUT
    yield f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
    for name, _, owner, *_ in references:
        yield f"ALTER TABLE {owner} DROP CONSTRAINT {name}"
    yield f"ALTER TABLE {table} RENAME TO {before}"
    for name, *_ in (*keys, *uniques):
        yield f"ALTER TABLE {before} RENAME CONSTRAINT {name} TO {name}_before"
    for name, _ in indexes:
        yield f"ALTER INDEX {name} RENAME TO {name}_before"
    yield f"ALTER TABLE {before} ALTER COLUMN id DROP IDENTITY IF EXISTS, ALTER COLUMN id DROP DEFAULT"
    yield f"DROP SEQUENCE IF EXISTS {sequence}"
    yield (
        f"CREATE TABLE {table} (LIKE {before} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED) "
        "PARTITION BY RANGE (id)"
    )
    yield f"ALTER TABLE {table} DROP CONSTRAINT {bound}"
    yield f"CREATE SEQUENCE {sequence} START {limit} OWNED BY {table}.id"
    yield f"ALTER TABLE {table} ALTER COLUMN id SET DEFAULT nextval('{sequence}')"
    for name, _, _, definition, _ in (*keys, *foreign_keys):
        yield f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
    for _, definition in indexes:
        yield definition
    yield f"ALTER TABLE {table} ATTACH PARTITION {before} FOR VALUES FROM (MINVALUE) TO ({limit})"
    yield f"ALTER TABLE {before} DROP CONSTRAINT {bound}"
    for number in range(limit // KEYS_PER_MONTH, month + MONTHS_AHEAD + 1):
        yield from _plan_month(table, number, [definition for _, _, _, definition, _ in uniques])
    for name, _, owner, definition, _ in references:
        yield f"ALTER TABLE {owner} ADD CONSTRAINT {name} {definition}"


def plan_months(table: str, month: int) -> list[str]:
    """Return the statements that create the missing partitions of this month and those ahead."""
    partitions = list_partitions(table)
    missing = range(max(partition.end for partition in partitions), month + MONTHS_AHEAD + 1)
    uniques = list_uniques(partitions[-1].name)
    statements = [statement for number in missing for statement in _plan_month(table, number, uniques)]
    return [LOCK_TIMEOUT, *statements] if statements else []


def _plan_month(table: str, month: int, uniques: Sequence[str]) -> Iterator[str]:
    """Yield the statements for the partition of a month."""
    name = f"{table}_{get_month_start(month):%Y_%m}"
    first, end = month * KEYS_PER_MONTH, (month + 1) * KEYS_PER_MONTH
    yield f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ({first}) TO ({end})"
    yield from plan_uniques(name, uniques)


def list_uniques(partition: str) -> list[str]:
    """Return the definitions of the constraints that hold within one partition only."""
    return [definition for _, _, _, definition, _ in _list_constraints(partition, "u")]


def plan_uniques(partition: str, definitions: Sequence[str]) -> list[str]:
    """Return the statements that add such constraints to a partition."""
    return [
        f"ALTER TABLE {partition} ADD CONSTRAINT {partition}_unique_{number} {definition}"
        for number, definition in enumerate(definitions, 1)
    ]


def maintain_partitions(today: date) -> None:
    """Create the months ahead, and let new rows go to this month."""
    for _ in convert_tables(today):
        pass


def move_sequences(today: date) -> None:
    """Let each sequence go on with the first key of this month, unless it is there already."""
    first = compute_month(today) * KEYS_PER_MONTH
    with transaction.atomic():
        # Two at once would set the sequence back below keys that are in use.
        _lock_partitions()
        for table in PARTITIONED_TABLES:
            sequence = f"{table}_id_seq"
            statement = f"SELECT setval('{sequence}', %s, false) FROM {sequence} WHERE last_value < %s"  # noqa: S608
            _read_rows(statement, first, first)


def _lock_partitions() -> None:
    _read_rows("SELECT pg_advisory_xact_lock(%s)", _LOCK_KEY)


def _list_constraints(table: str, kinds: str, column: str = "conrelid") -> list[tuple[Any, ...]]:
    """Return name, kind, table, definition and validity of the constraints of a table."""
    return _read_rows(_CONSTRAINTS.format(column=column), table, list(kinds))


def _read_bound(table: str, bound: str) -> int:
    """Return the bound that an earlier, perhaps killed, conversion chose; 0 for none."""
    definitions = [definition for name, _, _, definition, _ in _list_constraints(table, "c") if name == bound]
    digits = "".join(filter(str.isdigit, definitions[0].partition("<")[2])) if definitions else ""
    return int(digits or 0)


def _read_rows(statement: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchall()


def count_rows(table: str) -> Mapping[str, int]:
    """Return an estimate of the rows of each partition."""
    names = [partition.name for partition in list_partitions(table)]
    statement = "SELECT relname, greatest(reltuples, 0)::bigint FROM pg_class WHERE relname = ANY(%s)"
    return dict(_read_rows(statement, names))
