"""Memory that processes have allocated, over time, and its slope by least squares."""

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fixtures.process_memory import family_of, read_start

FEWEST_SAMPLES: Final = 5
HOUR: Final = 3600.0


@dataclass(frozen=True)
class Sample:
    """Allocated memory in KiB at a time of the monotonic clock."""

    at: float
    kibibytes: float


@dataclass(frozen=True)
class Slope:
    """Growth of one process over the longest time that it lived."""

    name: str
    minutes: float
    mebibytes: float
    percent_per_hour: float | None


class MemoryRecorder:
    """Samples of each process by name; one that was started again is another process."""

    def __init__(self) -> None:
        self._samples: defaultdict[tuple[str, int, str], list[Sample]] = defaultdict(list)

    def record(self, pids: Mapping[str, int]) -> None:
        """Sample processes and their descendants."""
        for name, pid in pids.items():
            with contextlib.suppress(OSError):
                for position, member in enumerate(family_of(pid)):
                    self._record_process(f"{name} child {position}" if position else name, member)

    def _record_process(self, name: str, pid: int) -> None:
        with contextlib.suppress(OSError, StopIteration):
            sample = Sample(time.monotonic(), read_allocated(pid))
            self._samples[name, pid, read_start(pid)].append(sample)

    def list_slopes(self, warm_up: float) -> list[Slope]:
        """Return the slope of the longest-lived process of each name, without its first `warm_up` seconds."""
        longest: dict[str, list[Sample]] = {}
        for (name, _, _), samples in self._samples.items():
            if name not in longest or _measure(samples) > _measure(longest[name]):
                longest[name] = samples
        return [_build_slope(name, samples, warm_up) for name, samples in sorted(longest.items())]


def read_allocated(pid: int) -> float:
    """Return the anonymous memory of a process in KiB, with the pages that it shares with forks.

    Nothing that other processes do changes it. A proportional share would grow whenever a fork writes to its
    pages or ends, and programs and libraries come and go with the rest of the machine.
    """
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def _measure(samples: Sequence[Sample]) -> float:
    return samples[-1].at - samples[0].at


def _build_slope(name: str, samples: Sequence[Sample], warm_up: float) -> Slope:
    warm = [sample for sample in samples if sample.at >= samples[0].at + warm_up]
    minutes = _measure(warm) / 60 if warm else 0.0
    return Slope(name, minutes, samples[-1].kibibytes / 1024, compute_slope(warm))


def compute_slope(samples: Iterable[Sample]) -> float | None:
    """Return the growth in percent of the mean an hour; None for too few samples."""
    points = list(samples)
    if len(points) < FEWEST_SAMPLES:
        return None
    times, sizes = [point.at for point in points], [point.kibibytes for point in points]
    line = statistics.linear_regression(times, sizes)
    return line.slope * HOUR / statistics.fmean(sizes) * 100
