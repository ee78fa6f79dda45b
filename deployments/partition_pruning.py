"""Pruning of logs, AWS calls and AWS events by dropping whole monthly partitions."""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet

from deployments.models import AwsCall, Execution, HiddenLogLines, StepExecution
from deployments.partitions import (
    LOCK_TIMEOUT,
    PARTITIONED_TABLES,
    Partition,
    get_month_start,
    list_partitions,
    list_uniques,
    plan_uniques,
)
from web.clock import get_database_time

# A partition with more rows to keep is not worth copying: its rows are pruned one by one.
MOST_KEPT_SHARE: Final = 0.1
_IS_CLEARED: Final = "execution_id IN (SELECT id FROM cleared_executions)"


def drop_expired_months(expired: QuerySet[Execution], before: datetime) -> int:
    """Drop the partitions of months that ended before a time, and return the number of cleared executions.

    Rows of executions that are not `expired` are kept: they are copied into a new partition of the same
    keys. A month that is in use now is tried again by the next prune.
    """
    months: defaultdict[tuple[bool, int], list[Partition]] = defaultdict(list)
    for partition in (partition for table in PARTITIONED_TABLES for partition in list_partitions(table)):
        if get_month_start(partition.end) <= before.date():
            months[not partition.is_before, partition.month].append(partition)
    cleared = 0
    for _, partitions in sorted(months.items()):
        # Whoever waits for a lock that is not free in time blocks others.
        with contextlib.suppress(OperationalError):
            cleared += _drop_month(partitions, expired)
    return cleared


def _drop_month(partitions: Sequence[Partition], expired: QuerySet[Execution]) -> int:
    """Drop the partitions of one month in one transaction with the marks of its executions."""
    with transaction.atomic():
        cleared = _mark_cleared(partitions, expired)
        if not _is_worth_dropping(partitions):
            transaction.set_rollback(True)
            return 0
        HiddenLogLines.objects.filter(call__execution__in=cleared).delete()
        _execute(LOCK_TIMEOUT)
        # A table whose foreign keys wait for a check cannot be changed, nor one that rows refer to.
        _execute("SET CONSTRAINTS ALL IMMEDIATE")
        calls_by_lines = _detach_hidden_lines(partitions)
        for partition in partitions:
            _replace_partition(partition)
        # Tables that were divided in another month, or have no rows to keep in this one.
        for table in set(PARTITIONED_TABLES) - {partition.table for partition in partitions}:
            _execute(f"DELETE FROM {table} WHERE {_IS_CLEARED}")  # noqa: S608
        for key, call in calls_by_lines:
            HiddenLogLines.objects.filter(pk=key).update(call_id=call)
        return len(cleared)


def _detach_hidden_lines(partitions: Sequence[Partition]) -> list[tuple[int, int]]:
    """Take the references of hidden lines to kept calls away, and return both keys of each."""
    referring = Q()
    for first, end in (part.key_range for part in partitions if part.table == AwsCall._meta.db_table):
        referring |= Q(call__gte=first, call__lt=end)
    rows = HiddenLogLines.objects.filter(referring, call__isnull=False) if referring else None
    if rows is None:
        return []
    found = list(rows.values_list("pk", "call_id"))
    HiddenLogLines.objects.filter(pk__in=[key for key, _ in found]).update(call=None)
    return found


def _mark_cleared(partitions: Sequence[Partition], expired: QuerySet[Execution]) -> list[Any]:
    """Mark the expired executions of a month as cleared, and list them in a table of this transaction."""
    names = " UNION ALL ".join(f"SELECT execution_id FROM {partition.name}" for partition in partitions)  # noqa: S608
    found = [key for (key,) in _read_rows(f"SELECT DISTINCT execution_id FROM ({names}) rows")]  # noqa: S608
    now = get_database_time()
    keys = list(expired.filter(pk__in=found).values_list("pk", flat=True))
    # By the condition too: a retry may have been requested since they were listed.
    rows = Execution.objects.filter(pk__in=keys, due_at__isnull=True)
    rows.update(details_deleted_at=now, next_line_number=1)
    marked = Execution.objects.filter(pk__in=keys, details_deleted_at=now)
    cleared = list(marked.values_list("pk", flat=True))
    StepExecution.objects.filter(stage__execution__in=cleared).update(first_line=None)
    _execute("CREATE TEMPORARY TABLE cleared_executions (id uuid PRIMARY KEY) ON COMMIT DROP")
    _execute("INSERT INTO cleared_executions SELECT unnest(%s::uuid[])", [cleared])
    return cleared


def _is_worth_dropping(partitions: Sequence[Partition]) -> bool:
    """Return whether few enough rows are kept, in each of the tables."""
    counts = [_count_kept_and_total(partition) for partition in partitions]
    return all(kept <= total * MOST_KEPT_SHARE for kept, total in counts)


def _count_kept_and_total(partition: Partition) -> tuple[int, int]:
    statement = f"SELECT count(*) FILTER (WHERE NOT {_IS_CLEARED}), count(*) FROM {partition.name}"  # noqa: S608
    ((kept, total),) = _read_rows(statement)
    return int(kept), int(total)


def _replace_partition(partition: Partition) -> None:
    """Drop a partition; where rows are kept, one with only these takes its place."""
    name, table = partition.name, partition.table
    first, end = partition.key_range
    start = "MINVALUE" if partition.is_before else str(first)
    uniques = list_uniques(name)
    # An execution that went on into the next month has rows there too. They change no more, and others go on
    # writing while they are looked for.
    _execute(f"DELETE FROM {table} WHERE {_IS_CLEARED} AND (id < {first} OR id >= {end})")  # noqa: S608
    # Else a change after the copy, such as the end of a call that went on for months, would be dropped.
    # The table first, as everybody else locks it.
    _execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
    _execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
    _execute(f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {name} WHERE NOT {_IS_CLEARED}")  # noqa: S608
    _execute(f"ALTER TABLE {table} DETACH PARTITION {name}")
    _execute(f"DROP TABLE {name}")
    if _read_rows("SELECT 1 FROM kept LIMIT 1"):
        _execute(f"CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ({start}) TO ({end})")
        for statement in plan_uniques(name, uniques):
            _execute(statement)
        _execute(f"INSERT INTO {table} SELECT * FROM kept")  # noqa: S608
    _execute("DROP TABLE kept")


def _execute(statement: str, params: Sequence[Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def _read_rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()
