"""Times of every page and API list with 1,000 and 100,000 executions, on SQLite and PostgreSQL."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.postgres import postgres

TIMES = [sys.executable, "-m", "benchmarks.page_times"]


def report() -> Iterator[str]:
    """Measure each database in a separate process, and yield its output by line."""
    databases = os.environ.get("BENCH_DATABASE", "sqlite postgres")
    if "sqlite" in databases:
        yield from _measure_database("")
    if "postgres" in databases:
        with ExitStack() as stack:
            folder = TemporaryDirectory(prefix="slipway-bench-", ignore_cleanup_errors=True)
            server = stack.enter_context(postgres(Path(stack.enter_context(folder))))
            yield from _measure_database(server.url)


def _measure_database(database_url: str) -> Iterator[str]:
    with TemporaryDirectory(prefix="slipway-bench-", ignore_cleanup_errors=True) as home:
        variables = {"DATABASE_URL": database_url, "SLIPWAY_TESTS_HOME": home, "PYTHONUNBUFFERED": "1"}
        environment = {**os.environ, **variables}
        with subprocess.Popen(TIMES, env=environment, stdout=subprocess.PIPE, text=True) as child:
            yield from (line.rstrip("\n") for line in child.stdout or ())
        if child.returncode:
            sys.exit(f"{' '.join(TIMES)} ended with {child.returncode}.")
