"""Monthly partitions of logs, AWS calls and AWS events: conversion, use and pruning on PostgreSQL."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError, connection, transaction
from pytest_django import Settings

from deployments import log, partition_pruning
from deployments.execution.operations import roll_back_execution
from deployments.models import AwsCall, AwsEvent, Execution, HiddenLogLines, LogChunk
from deployments.partitions import (
    KEYS_PER_MONTH,
    PARTITIONED_TABLES,
    compute_month,
    convert_tables,
    get_month_start,
    is_partitioned,
    list_partitions,
    maintain_partitions,
    plan_conversion,
)
from deployments.retention import DETAIL_RETENTION, EXECUTION_RETENTION
from ops.table_sizes import measure_tables
from tests.fixtures.engine_driver import Drive
from web.clock import get_database_time

MODELS = (LogChunk, AwsCall, AwsEvent)


@pytest.fixture
def today(settings: Settings, transactional_db: None) -> Iterator[date]:
    """The day of the conversion, with periods of retention; the tables are plain ones again afterwards."""
    settings.RETENTION_DAYS = {
        **settings.RETENTION_DAYS,
        "SLIPWAY_KEEP_EXECUTIONS_DAYS": 900,
        "SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS": 30,
    }
    yield get_database_time().date()
    with connection.schema_editor() as editor:
        for model in (HiddenLogLines, *MODELS):
            editor.delete_model(model)
        for model in (*MODELS, HiddenLogLines):
            editor.create_model(model)


def count_details(execution: Execution) -> list[int]:
    return [model.objects.filter(execution=execution).count() for model in MODELS]


def list_names(table: str) -> list[str]:
    return [partition.name.removeprefix(table) for partition in list_partitions(table)]


def is_refused() -> bool:
    """Return whether this database is refused, with the reason and the way out."""
    if connection.vendor == "postgresql":
        return False
    with pytest.raises(CommandError, match="SQLite has no partitions.*set DATABASE_URL"):
        call_command("partition_tables", "--apply")
    return not is_partitioned()


@pytest.mark.django_db
def test_the_plan_is_shown_and_changes_nothing_and_sqlite_is_refused() -> None:
    if not is_refused():
        output = StringIO()
        call_command("partition_tables", stdout=output)
        assert "CREATE TABLE deployments_awscall (LIKE deployments_awscall_before" in output.getvalue()
    assert not is_partitioned()


def test_months_are_counted_and_their_keys_are_exact_in_javascript() -> None:
    month = compute_month(date(2026, 12, 31))
    assert (get_month_start(month), get_month_start(month + 1)) == (date(2026, 12, 1), date(2027, 1, 1))
    assert compute_month(date(2999, 1, 1)) * KEYS_PER_MONTH < 2**53


def test_a_filled_table_is_converted_and_the_product_goes_on_in_it(drive: Drive, today: date) -> None:
    if is_refused():
        return
    first = drive.run("1.0")
    before, lines = count_details(first), log.read_lines(first.pk)
    assert len(list(convert_tables(today))) == 3 * len(PARTITIONED_TABLES)
    assert list(convert_tables(today)) == []
    assert (count_details(first), log.read_lines(first.pk)) == (before, lines)

    second = drive.run("2.0")
    this_month = compute_month(today) * KEYS_PER_MONTH
    for model in MODELS:
        keys = model.objects.filter(execution=second).values_list("pk", flat=True)
        assert keys
        assert min(keys) >= this_month
        assert max(model.objects.filter(execution=first).values_list("pk", flat=True)) < this_month
    assert roll_back_execution(actor=drive.deployer, execution=second) == second
    drive.pass_time(1)
    assert drive.until_over(second).status == "ROLLED_BACK"
    numbers = [line["number"] for line in log.read_lines(second.pk)]
    assert numbers == list(range(1, len(numbers) + 1))
    sizes = measure_tables(PARTITIONED_TABLES)
    assert all(size.rows and size.bytes for size in sizes.values())


def test_a_killed_conversion_goes_on_with_the_step_that_was_not_done(drive: Drive, today: date) -> None:
    if is_refused():
        return
    execution = drive.run("1.0")
    before = count_details(execution)
    steps = convert_tables(today)
    done = [next(steps) for _ in range(4)]
    # The bound that was added stays, though the month is another one by then.
    later = today + timedelta(days=40)
    rest = list(convert_tables(later))
    assert rest[:2] == [
        f"Create months of {PARTITIONED_TABLES[0]}",
        f"Validate the upper bound of {PARTITIONED_TABLES[1]}",
    ]
    assert len({*done, *rest[1:]}) == 3 * len(PARTITIONED_TABLES)
    assert count_details(execution) == before
    assert list(plan_conversion(later)) == []


def test_keys_of_rows_are_unique_within_a_partition(drive: Drive, today: date) -> None:
    if is_refused():
        return
    maintain_partitions(today)
    chunk = LogChunk.objects.filter(execution=drive.run("1.0")).earliest("pk")
    with pytest.raises(IntegrityError), transaction.atomic():
        LogChunk.objects.create(
            execution_id=chunk.execution_id, first=chunk.first, last=chunk.last, packed=b""
        )


def test_expired_months_are_dropped_with_all_but_what_is_needed(drive: Drive, today: date) -> None:
    if is_refused():
        return
    old, needed = drive.run("1.0"), drive.run("2.0")
    maintain_partitions(today)
    newer = drive.run("3.0")
    now = datetime.combine(today, datetime.min.time(), get_database_time().tzinfo) + timedelta(days=100)
    Execution.objects.filter(pk__in=[old.pk, needed.pk, newer.pk]).update(ended_at=now - timedelta(days=99))
    kept = count_details(newer)

    assert DETAIL_RETENTION.prune(now) >= 2
    for execution in (old, needed):
        execution.refresh_from_db()
        assert execution.details_deleted_at
        assert count_details(execution) == [0, 0, 0]
    assert count_details(newer) == kept
    for table in PARTITIONED_TABLES:
        assert "_before" not in list_names(table)
    assert log.read_lines(newer.pk)
    maintain_partitions(now.date())
    assert drive.run("4.0").status == "SUCCESS"
    assert EXECUTION_RETENTION.prune(now) == 0


def test_hidden_lines_of_a_kept_call_do_not_keep_its_month(
    drive: Drive, today: date, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_refused():
        return
    old = drive.run("1.0")
    maintain_partitions(today)
    newer = drive.run("2.0")
    now = datetime.combine(today, datetime.min.time(), get_database_time().tzinfo) + timedelta(days=100)
    Execution.objects.filter(pk__in=[old.pk, newer.pk]).update(ended_at=now - timedelta(days=99))
    call = AwsCall.objects.filter(execution=newer).order_by("pk")[0]
    lines = HiddenLogLines.objects.create(execution=newer, call=call, lines="[]", size=2, due_at=now)
    kept = count_details(newer)
    # Each month is worth dropping, however much of it is kept.
    monkeypatch.setattr("deployments.partition_pruning.MOST_KEPT_SHARE", 1.0)

    assert DETAIL_RETENTION.prune(now) >= 1
    assert count_details(newer) == kept
    lines.refresh_from_db()
    assert lines.call_id == call.pk


def test_a_row_that_changes_while_its_month_is_dropped_keeps_the_change(
    drive: Drive, today: date, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_refused():
        return
    old = drive.run("1.0")
    maintain_partitions(today)
    newer = drive.run("2.0")
    now = datetime.combine(today, datetime.min.time(), get_database_time().tzinfo) + timedelta(days=100)
    Execution.objects.filter(pk__in=[old.pk, newer.pk]).update(ended_at=now - timedelta(days=99))
    call = AwsCall.objects.filter(execution=newer).order_by("pk")[0]
    monkeypatch.setattr("deployments.partition_pruning.MOST_KEPT_SHARE", 1.0)
    copy = f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {list_partitions(AwsCall._meta.db_table)[1].name} "
    other, execute, changes = connection.copy(), partition_pruning._execute, []

    def execute_beside_a_worker(statement: str, *params: Any) -> None:
        execute(statement, *params)
        if statement.startswith(copy):
            with suppress(OperationalError), other.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
                cursor.execute(
                    f"UPDATE {AwsCall._meta.db_table} SET operation = 'x' WHERE id = %s", [call.pk]
                )
                changes.append(cursor.rowcount)

    monkeypatch.setattr(partition_pruning, "_execute", execute_beside_a_worker)
    try:
        assert DETAIL_RETENTION.prune(now) >= 1
    finally:
        other.close()
    call.refresh_from_db()
    assert (call.operation == "x") is (sum(changes) > 0)


def test_tables_that_were_divided_in_different_months_lose_the_same_executions(
    drive: Drive, today: date
) -> None:
    if is_refused():
        return
    old, needed = drive.run("1.0"), drive.run("2.0")
    steps = convert_tables(today)
    while not is_partitioned(PARTITIONED_TABLES[0]):
        next(steps)
    maintain_partitions(today + timedelta(days=31))
    newer = drive.run("3.0")
    now = datetime.combine(today, datetime.min.time(), get_database_time().tzinfo) + timedelta(days=130)
    Execution.objects.filter(pk__in=[old.pk, needed.pk, newer.pk]).update(ended_at=now - timedelta(days=129))
    kept = count_details(newer)

    assert DETAIL_RETENTION.prune(now) >= 2
    for execution in (old, needed):
        execution.refresh_from_db()
        assert execution.details_deleted_at
        assert count_details(execution) == [0, 0, 0]
    assert count_details(newer) == kept
