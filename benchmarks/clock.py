"""How a thing is timed: often, and the median counts."""

import statistics
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], times: int = 15) -> float:
    """The median time of one run."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def row(what: str, measured: float, compared_with: float) -> str:
    """One line of the report."""
    return f"  {what:<58} {measured * 1000:9.2f} ms   x {measured / compared_with:6.2f}"
