"""Timing of a callable: the median of many runs."""

import statistics
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], times: int = 15) -> float:
    """Return the median seconds of a run."""
    durations = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        durations.append(time.perf_counter() - began)
    return statistics.median(durations)


def row(label: str, measured: float, compared_with: float) -> str:
    """Return one line of the report."""
    return f"  {label:<58} {measured * 1000:9.2f} ms   x {measured / compared_with:6.2f}"
