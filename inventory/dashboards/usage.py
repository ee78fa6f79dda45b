"""How much CPU and memory an ECS service used: the points that sync has kept, as a chart and as a table."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from inventory.dashboards.charts import Box, Tick, axis_of_shares, gaps, line, top_of_shares
from inventory.models.instances import SeenService
from inventory.sync.keeping.usage import BACK, PERIOD, window

_MARKS_EVERY: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Reading:
    """The averages of five minutes, in per cent; None where CloudWatch has none."""

    at: datetime
    cpu: float | None
    memory: float | None

    @property
    def is_known(self) -> bool:
        return self.cpu is not None or self.memory is not None


@dataclass(frozen=True)
class Measure:
    """One measure over time, in per cent of what is reserved: its line, its axis, and what both say."""

    word: str
    values: tuple[float | None, ...]

    @cached_property
    def known(self) -> list[float]:
        return [one for one in self.values if one is not None]

    @property
    def now(self) -> float | None:
        """The newest value."""
        return self.known[-1] if self.known else None

    @property
    def lowest(self) -> float | None:
        return min(self.known, default=None)

    @property
    def highest(self) -> float | None:
        return max(self.known, default=None)

    @property
    def path(self) -> str:
        return line(self.values, most=top_of_shares(self.values))

    @property
    def ticks(self) -> tuple[Tick, ...]:
        return axis_of_shares(self.values)

    @property
    def gaps(self) -> tuple[Box, ...]:
        return gaps(self.values)


@dataclass(frozen=True)
class Usage:
    """Three hours of readings, the oldest first, and when they were read."""

    read_at: datetime
    readings: tuple[Reading, ...]

    @cached_property
    def known(self) -> list[Reading]:
        """Those with a value, the newest first."""
        return [one for one in reversed(self.readings) if one.is_known]

    @property
    def told(self) -> list[Reading]:
        """From the newest value to the oldest, the newest first, with what is missing in between."""
        if not self.known:
            return []
        newest, oldest = self.known[0].at, self.known[-1].at
        return [one for one in reversed(self.readings) if oldest <= one.at <= newest]

    @cached_property
    def measures(self) -> tuple[Measure, Measure]:
        """CPU and memory."""
        return (
            Measure("CPU", tuple(one.cpu for one in self.readings)),
            Measure("Memory", tuple(one.memory for one in self.readings)),
        )

    @property
    def hours(self) -> list[datetime]:
        """The marks of the time axis, from its beginning to its end."""
        since = self.readings[0].at
        return [since + number * _MARKS_EVERY for number in range(BACK // _MARKS_EVERY + 1)]


def usage_of(seen: SeenService) -> Usage | None:
    """What sync has kept of a service; None as long as it has read nothing."""
    if seen.usage_read_at is None:
        return None
    since, _ = window(seen.usage_read_at)
    moments = [since + number * PERIOD for number in range(BACK // PERIOD)]
    cpu, memory = (seen.usage.get(kind, {}) for kind in ("cpu", "memory"))
    readings = (Reading(at, cpu.get(at.isoformat()), memory.get(at.isoformat())) for at in moments)
    return Usage(seen.usage_read_at, tuple(readings))
