"""CPU and memory usage of an ECS service, as chart and table."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from inventory.dashboards.charts import (
    AxisTick,
    ChartBox,
    build_gap_boxes,
    build_line_path,
    build_percent_axis,
    compute_percent_maximum,
)
from inventory.models.instances import EcsServiceRecord
from inventory.sync.upserts.usage import PERIOD, USAGE_WINDOW, compute_usage_window

_TICK_INTERVAL: Final = timedelta(hours=1)


@dataclass(frozen=True)
class UsageReading:
    """The averages of five minutes in percent; None where CloudWatch has no value."""

    at: datetime
    cpu: float | None
    memory: float | None

    @property
    def is_known(self) -> bool:
        return self.cpu is not None or self.memory is not None


@dataclass(frozen=True)
class UsageMeasure:
    """One measure over time in percent of the reservation, for chart and table."""

    label: str
    values: tuple[float | None, ...]

    @cached_property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def current(self) -> float | None:
        """Return the newest value."""
        return self.known[-1] if self.known else None

    @property
    def lowest(self) -> float | None:
        return min(self.known, default=None)

    @property
    def highest(self) -> float | None:
        return max(self.known, default=None)

    @property
    def path(self) -> str:
        return build_line_path(self.values, maximum=compute_percent_maximum(self.values))

    @property
    def ticks(self) -> tuple[AxisTick, ...]:
        return build_percent_axis(self.values)

    @property
    def gaps(self) -> tuple[ChartBox, ...]:
        return build_gap_boxes(self.values)


@dataclass(frozen=True)
class ServiceUsage:
    """Three hours of readings, the oldest first, and when they were read."""

    read_at: datetime
    readings: tuple[UsageReading, ...]

    @cached_property
    def known(self) -> list[UsageReading]:
        """Return the readings with a value, the newest first."""
        return [reading for reading in reversed(self.readings) if reading.is_known]

    @property
    def table_rows(self) -> list[UsageReading]:
        """Return the readings between the newest and the oldest value, the newest first."""
        if not self.known:
            return []
        newest, oldest = self.known[0].at, self.known[-1].at
        return [reading for reading in reversed(self.readings) if oldest <= reading.at <= newest]

    @cached_property
    def measures(self) -> tuple[UsageMeasure, UsageMeasure]:
        """Return the measures of CPU and memory."""
        return (
            UsageMeasure("CPU", tuple(reading.cpu for reading in self.readings)),
            UsageMeasure("Memory", tuple(reading.memory for reading in self.readings)),
        )

    @property
    def hours(self) -> list[datetime]:
        """Return the ticks of the time axis."""
        since = self.readings[0].at
        return [since + number * _TICK_INTERVAL for number in range(USAGE_WINDOW // _TICK_INTERVAL + 1)]


def get_usage(ecs_service: EcsServiceRecord) -> ServiceUsage | None:
    """Return the usage that sync stored; None before the first read."""
    if ecs_service.usage_read_at is None:
        return None
    since, _ = compute_usage_window(ecs_service.usage_read_at)
    moments = [since + number * PERIOD for number in range(USAGE_WINDOW // PERIOD)]
    cpu, memory = (ecs_service.usage.get(kind, {}) for kind in ("cpu", "memory"))
    readings = (UsageReading(at, cpu.get(at.isoformat()), memory.get(at.isoformat())) for at in moments)
    return ServiceUsage(ecs_service.usage_read_at, tuple(readings))
