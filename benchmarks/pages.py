"""Times of every page and API list with 1,000 and 100,000 executions, on SQLite and PostgreSQL."""

from collections.abc import Iterator

from benchmarks.databases import measure_databases
from benchmarks.goals import Figure


def report() -> Iterator[str | Figure]:
    """Measure each database in a separate process, and yield its output by line."""
    yield from measure_databases("benchmarks.page_times")
