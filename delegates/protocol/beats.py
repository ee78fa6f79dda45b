"""What instances say of themselves, and how many of them are written in one statement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from delegates.models import DelegateInstance

_UPDATE = """
UPDATE delegates_delegateinstance SET suspect_since = NULL, last_heartbeat_at = %s, cpu_process = %s,
  cpu_system = %s, memory_mib = %s, running = %s, max_executing = %s, status = %s WHERE id = %s
"""
_SAMPLE = """
INSERT INTO delegates_instancesample (at, cpu_process, cpu_system, memory_mib, running, instance_id)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_UPDATE_ARRAYS = """
UPDATE delegates_delegateinstance AS i SET suspect_since = NULL, last_heartbeat_at = %s,
  cpu_process = b.cpu_process, cpu_system = b.cpu_system, memory_mib = b.memory_mib,
  running = b.running, max_executing = b.max_executing, status = b.status
FROM unnest(%s::float8[], %s::float8[], %s::float8[], %s::int[], %s::int[], %s::text[], %s::bigint[])
  AS b (cpu_process, cpu_system, memory_mib, running, max_executing, status, id)
WHERE i.id = b.id
"""
_SAMPLE_ARRAYS = """
INSERT INTO delegates_instancesample (at, cpu_process, cpu_system, memory_mib, running, instance_id)
SELECT %s, b.* FROM unnest(%s::float8[], %s::float8[], %s::float8[], %s::int[], %s::bigint[]) AS b
"""


@dataclass(frozen=True)
class Beat:
    """What an instance said of itself."""

    instance_id: int
    running: Mapping[UUID, int] = field(default_factory=dict)
    cpu_process: float = 0.0
    cpu_system: float = 0.0
    memory_mib: float = 0.0
    max_executing: int = 0
    draining: bool = False

    @property
    def row(self) -> tuple[Any, ...]:
        """As the statements want it: load, memory, running, most at once, status, instance."""
        status = DelegateInstance.Status.DRAINING if self.draining else DelegateInstance.Status.REGISTERED
        load = (self.cpu_process, self.cpu_system, self.memory_mib)
        return (*load, len(self.running), self.max_executing, status.value, self.instance_id)


def store(beats: Iterable[Beat], now: datetime) -> None:
    """Write what instances are now, and a sample of each for the charts of a day."""
    rows = [one.row for one in beats]
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            columns = [list(column) for column in zip(*rows, strict=True)]
            cursor.execute(_UPDATE_ARRAYS, [now, *columns])
            cursor.execute(_SAMPLE_ARRAYS, [now, *columns[:4], columns[-1]])
        else:
            moment = connection.ops.adapt_datetimefield_value(now)
            cursor.executemany(_UPDATE, [(moment, *row) for row in rows])
            cursor.executemany(_SAMPLE, [(moment, *row[:4], row[-1]) for row in rows])
