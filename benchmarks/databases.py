"""Measurements that run once on SQLite and once on PostgreSQL, each in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.goals import Figure, parse_lines
from tests.postgres import postgres


class MeasurementFailed(RuntimeError):
    """A process that measures ended with an error."""


def measure_databases(module: str, databases: str = "") -> Iterator[str | Figure]:
    """Run a module for each database, by default those of BENCH_DATABASE, and yield its output by line."""
    databases = databases or os.environ.get("BENCH_DATABASE", "sqlite postgres")
    if "sqlite" in databases:
        yield from _measure_database(module, "")
    if "postgres" in databases:
        with ExitStack() as stack:
            folder = TemporaryDirectory(prefix="slipway-bench-", ignore_cleanup_errors=True)
            server = stack.enter_context(postgres(Path(stack.enter_context(folder))))
            yield from _measure_database(module, server.url)


def _measure_database(module: str, database_url: str) -> Iterator[str | Figure]:
    command = [sys.executable, "-m", module]
    with TemporaryDirectory(prefix="slipway-bench-", ignore_cleanup_errors=True) as home:
        variables = {"DATABASE_URL": database_url, "SLIPWAY_TESTS_HOME": home, "PYTHONUNBUFFERED": "1"}
        environment = {**os.environ, **variables}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
            yield from parse_lines(child.stdout or ())
        if child.returncode:
            raise MeasurementFailed(f"{' '.join(command)} ended with {child.returncode}.")
