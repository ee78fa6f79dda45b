"""Start of a web process, from its command to its first answer."""

import os
import statistics
import time
from collections.abc import Iterator

from benchmarks.goals import Figure
from benchmarks.servers import SLIPWAY, build_database_url, start_broker, start_server

STARTS = 5


def report() -> Iterator[str | Figure]:
    """Start the web server several times on the same database."""
    durations = []
    with start_broker() as (broker_url, _):
        environment = {**os.environ, "REDIS_URL": broker_url, "DATABASE_URL": build_database_url()}
        for _ in range(STARTS):
            began = time.perf_counter()
            with start_server(SLIPWAY, environment):
                durations.append(time.perf_counter() - began)
    median = statistics.median(durations)
    yield f"  ready after {median:.1f} s, at most {max(durations):.1f} s, {STARTS} starts"
    yield Figure("P16 start", median)
