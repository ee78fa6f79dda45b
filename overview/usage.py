"""How much CPU and memory an ECS service used: the points that sync has kept, as a chart and as a table."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from instances.keeping.usage import BACK, PERIOD, window
from instances.models import SeenService
from overview.charts import line

_HUNDRED: Final = 100.0


@dataclass(frozen=True)
class Reading:
    """The averages of five minutes, in per cent; None where CloudWatch has none."""

    at: datetime
    cpu: float | None
    memory: float | None


@dataclass(frozen=True)
class Usage:
    """Three hours of readings, the oldest first, and when they were read."""

    read_at: datetime
    readings: tuple[Reading, ...]

    @cached_property
    def known(self) -> list[Reading]:
        """Those with a value, the newest first."""
        return [one for one in reversed(self.readings) if one.cpu is not None or one.memory is not None]

    @property
    def cpu_now(self) -> float | None:
        return next((one.cpu for one in self.known if one.cpu is not None), None)

    @property
    def memory_now(self) -> float | None:
        return next((one.memory for one in self.known if one.memory is not None), None)

    @property
    def cpu_path(self) -> str:
        return _path([one.cpu for one in self.readings])

    @property
    def memory_path(self) -> str:
        return _path([one.memory for one in self.readings])


def usage_of(seen: SeenService) -> Usage | None:
    """What sync has kept of a service; None as long as it has read nothing."""
    if seen.usage_read_at is None:
        return None
    since, _ = window(seen.usage_read_at)
    moments = [since + number * PERIOD for number in range(BACK // PERIOD)]
    cpu, memory = (seen.usage.get(kind, {}) for kind in ("cpu", "memory"))
    readings = (Reading(at, cpu.get(at.isoformat()), memory.get(at.isoformat())) for at in moments)
    return Usage(seen.usage_read_at, tuple(readings))


def _path(values: list[float | None]) -> str:
    most = max((one for one in values if one is not None), default=_HUNDRED)
    return line(values, most=max(most, _HUNDRED))
