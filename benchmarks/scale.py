"""One and two web servers and workers on PostgreSQL and Valkey: what each load costs, and how it grows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.postgres import postgres

RUNS = [sys.executable, "-m", "benchmarks.scale_runs"]


def report() -> Iterator[str]:
    """Measure all combinations in a process with the database of PostgreSQL, and yield its output by line."""
    with (
        TemporaryDirectory(prefix="slipway-bench-", ignore_cleanup_errors=True) as folder,
        TemporaryDirectory(prefix="slipway-bench-", ignore_cleanup_errors=True) as home,
        postgres(Path(folder)) as server,
    ):
        variables = {
            "DATABASE_URL": server.url,
            "SLIPWAY_TESTS_HOME": home,
            "PYTHONUNBUFFERED": "1",
            "LOG_LEVEL": "ERROR",
        }
        with subprocess.Popen(
            RUNS, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True
        ) as child:
            yield from (line.rstrip("\n") for line in child.stdout or ())
        if child.returncode:
            sys.exit(f"{' '.join(RUNS)} ended with {child.returncode}.")
