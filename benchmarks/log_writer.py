"""A log writer like a worker, paced or at full speed; a process of `benchmarks.logs`."""

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import django

django.setup()

from django.db import connection, transaction
from django.utils import timezone

from benchmarks.log_source import SECRETS, generate_lines
from benchmarks.servers import create_admin_session
from deployments.engine.execution_rows import ExecutionRows
from deployments.engine.lease import Lease, load_execution
from deployments.journal.runtime import LIVE_RUNTIME
from deployments.log import LineOrigin, NewLogLine
from deployments.models import Execution
from guards.masks import MaskedLineReader, SecretMask
from pipelines.models import Pipeline
from rbac.models import Scope

BATCH_SECONDS = 0.1
ROWS_TABLE = """CREATE TABLE IF NOT EXISTS bench_line (
    id INTEGER PRIMARY KEY, execution CHAR(32), number BIGINT, at TIMESTAMP,
    step TEXT, unit TEXT, level TEXT, origin TEXT, text TEXT, UNIQUE (execution, number)
)"""
READ_BYTES = 8192


class Writer:
    """One execution with a printing container; its lines take the product's own path."""

    def __init__(self, number: int) -> None:
        scope = Scope.objects.account()
        pipeline, _ = Pipeline.objects.get_or_create(
            scope=scope, identifier="bench_log", defaults={"name": "Bench", "yaml": ""}
        )
        far = timezone.now() + timedelta(hours=1)
        self.execution = Execution.objects.create(
            pipeline=pipeline,
            scope=scope,
            number=Execution.objects.filter(pipeline=pipeline).count() + 1,
            status="RUNNING",
            due_at=far,
            lease_expires_at=far,
            fence=1,
        )
        execution = load_execution(self.execution.pk)
        lease = Lease(execution.pk, 1, LIVE_RUNTIME, LIVE_RUNTIME.monotonic(), far, execution)
        self.rows = ExecutionRows(lease, execution)
        self.mask = SecretMask(SECRETS)
        self.output = MaskedLineReader(self.mask)
        self.source = generate_lines(number)

    def write(self, count: int, began: float, lasted: float) -> None:
        """Print `count` lines over `lasted` seconds from `began` on, then store them in one commit."""
        data = "".join(f"{next(self.source)}\n" for _ in range(count)).encode()
        texts = [text for piece in _split_reads(data) for text in self.output.feed(piece)]
        new = [
            NewLogLine(
                datetime.fromtimestamp(began + lasted * index / count, UTC),
                *(None, "run", "Run", "info", text, LineOrigin.CONTAINER),
            )
            for index, text in enumerate(texts)
        ]
        self.rows.add_lines(new, self.mask)
        self.rows.save()


def _split_reads(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), READ_BYTES):
        yield data[start : start + READ_BYTES]


def _write_paced(writers: list[Writer], lines_a_second: int, seconds: float) -> int:
    """Commit ten times a second with each writer, and return the number of lines."""
    count = int(lines_a_second * BATCH_SECONDS / len(writers))
    apart = BATCH_SECONDS / len(writers)
    began, turns = time.time(), int(seconds / apart)
    for turn in range(turns):
        due = began + (turn + 1) * apart
        time.sleep(max(0.0, due - time.time()))
        writers[turn % len(writers)].write(count, due - BATCH_SECONDS, BATCH_SECONDS)
    return turns * count


def _at_once(writer: Writer, lines: int, batch: int) -> int:
    for _ in range(lines // batch):
        writer.write(batch, time.time(), 0.0)
    return lines


def _as_rows(lines: int, batch: int) -> int:
    """Store one row for each line, committed in batches: the baseline."""
    source, mask = generate_lines(0), SecretMask(SECRETS)
    with connection.cursor() as cursor:
        cursor.execute(ROWS_TABLE)
        for start in range(0, lines, batch):
            with transaction.atomic():
                for number in range(start, start + batch):
                    values: list[Any] = [
                        f"{lines}/{batch}",
                        number,
                        datetime.now(UTC),
                        "run",
                        "Run",
                        "info",
                        "container",
                    ]
                    cursor.execute(
                        "INSERT INTO bench_line (execution, number, at, step, unit, level, origin, text) "
                        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                        [*values, mask.mask_text(next(source))],
                    )
    return lines


def _bytes_used() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        values = []
        for name in ("page_count", "freelist_count", "page_size"):
            cursor.execute(f"PRAGMA {name}")
            values.append(int(cursor.fetchone()[0]))
    return (values[0] - values[1]) * values[2]


def _source_alone(lines: int) -> float:
    """Return the CPU time of generating the lines, which is no part of the log."""
    source, cpu = generate_lines(1), time.process_time()
    for _ in range(lines):
        next(source)
    return time.process_time() - cpu


def main() -> None:
    """Answer each order, a JSON object in a line of standard input, with one."""
    writers: list[Writer] = []
    for order in map(json.loads, sys.stdin):
        used, cpu, began = _bytes_used(), time.process_time(), time.perf_counter()
        lines = 0
        match order["do"]:
            case "begin":
                writers = [Writer(number) for number in range(order["executions"])]
            case "paced":
                lines = _write_paced(writers, order["rate"], order["seconds"])
            case "at once":
                lines = _at_once(writers[0], order["lines"], order["batch"])
            case "rows":
                lines = _as_rows(order["lines"], order["batch"])
        answer = {
            "lines": lines,
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - cpu - _source_alone(lines),
            "bytes": _bytes_used() - used,
            "executions": [str(writer.execution.pk) for writer in writers],
            "session": create_admin_session() if order["do"] == "begin" else "",
            "pid": os.getpid(),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
