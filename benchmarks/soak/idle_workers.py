"""Workers that take no part: what their children do is known by the processor time that they use."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.fixtures.process_memory import cpu_seconds, family_of, read_start

# A worker that gets its share of the soak uses this in two seconds. Children without tasks use nothing.
LEAST_WORK: Final = 0.5
# A worker may be frozen for a minute, and the broker, then the database, be away for half a minute each.
LONGEST_PAUSE: Final = 300.0


@dataclass
class _Progress:
    """Processor time of the children of one worker, and when it last grew by `LEAST_WORK`."""

    at: float
    seconds: float = 0.0
    by_child: dict[tuple[int, str], float] = field(default_factory=dict)


class WorkerMonitor:
    """Progress of each worker by name; one that was started again is another process."""

    def __init__(self) -> None:
        self._workers: dict[tuple[str, int, str], _Progress] = {}
        self.longest_pauses: dict[str, float] = {}

    def record(self, pids: Mapping[str, int], now: float) -> None:
        """Look at workers at a time in seconds."""
        for name, pid in pids.items():
            # The worker was killed meanwhile.
            with contextlib.suppress(OSError):
                self._record_worker(name, pid, now)

    def _record_worker(self, name: str, pid: int, now: float) -> None:
        progress = self._workers.setdefault((name, pid, read_start(pid)), _Progress(now))
        for child in family_of(pid)[1:]:
            with contextlib.suppress(OSError):
                progress.by_child[child, read_start(child)] = cpu_seconds(child)
        # Time of children that ended counts on.
        if (seconds := sum(progress.by_child.values())) >= progress.seconds + LEAST_WORK:
            progress.at, progress.seconds = now, seconds
        self.longest_pauses[name] = max(self.longest_pauses.get(name, 0.0), now - progress.at)

    def list_idle(self) -> list[str]:
        """Return the workers that did nothing for longer than they may."""
        return [
            f"{name} took no part for {pause:.0f} s"
            for name, pause in sorted(self.longest_pauses.items())
            if pause > LONGEST_PAUSE
        ]
