"""Ten thousand delegates on two web servers with PostgreSQL: memory, dispatch, and a restart of both."""

from collections.abc import Iterator

from benchmarks.databases import measure_databases
from benchmarks.goals import Figure


def report() -> Iterator[str | Figure]:
    """Measure in a process with the database of PostgreSQL, and yield its output by line."""
    yield from measure_databases("benchmarks.fleet_runs", "postgres")
