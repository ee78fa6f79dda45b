"""One and two web servers and workers on PostgreSQL and Valkey: what each load costs, and how it grows."""

from collections.abc import Iterator

from benchmarks.databases import measure_databases
from benchmarks.goals import Figure


def report() -> Iterator[str | Figure]:
    """Measure all combinations in a process with the database of PostgreSQL, and yield its output by line."""
    yield from measure_databases("benchmarks.scale_runs", "postgres")
