"""Time of a routing decision among 10,000 delegates of one scope, on SQLite and PostgreSQL."""

from collections.abc import Iterator

from benchmarks.databases import measure_databases
from benchmarks.goals import Figure


def report() -> Iterator[str | Figure]:
    """Measure each database in a separate process, and yield its output by line."""
    yield from measure_databases("benchmarks.routing_times")
