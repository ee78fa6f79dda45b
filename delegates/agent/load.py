"""How busy this process and its machine are, from what Linux tells in /proc."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STAT, _MEMORY = Path("/proc/stat"), Path("/proc/self/statm")


@dataclass(frozen=True)
class Reading:
    """Percentages of all processors since the reading before, and memory in MiB."""

    cpu_process: float
    cpu_system: float
    memory_mib: float


class Load:
    """Measures between two readings."""

    def __init__(self) -> None:
        self._before = _moment()

    def read(self) -> Reading:
        before, self._before = self._before, _moment()
        now = self._before
        seconds = (now.clock - before.clock) * (os.cpu_count() or 1)
        ticks = now.ticks - before.ticks
        return Reading(
            cpu_process=_percent(now.process - before.process, seconds),
            cpu_system=_percent(now.busy_ticks - before.busy_ticks, ticks),
            memory_mib=_memory_mib(),
        )


@dataclass(frozen=True)
class _Moment:
    clock: float
    process: float
    ticks: int
    busy_ticks: int


def _moment() -> _Moment:
    ticks, busy = _ticks()
    return _Moment(time.monotonic(), time.process_time(), ticks, busy)


def _ticks() -> tuple[int, int]:
    """All ticks of all processors, and those spent working; zeros where there is no /proc."""
    try:
        counts = [int(one) for one in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    idle = sum(counts[3:5])
    return sum(counts), sum(counts) - idle


def _memory_mib() -> float:
    try:
        pages = int(_MEMORY.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024, 1)


def _percent(part: float, whole: float) -> float:
    return round(min(100.0, max(0.0, 100 * part / whole)), 1) if whole > 0 else 0.0
