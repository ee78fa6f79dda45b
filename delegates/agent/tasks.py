"""Tasks of the agent: parsed tasks, current tasks, free capacity."""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# A check only finds out whether tasks could be done here.
VALIDATING = "check"


@dataclass(frozen=True)
class AgentTask:
    """An acquired task; `acquired_at` is monotonic and never later than the true moment."""

    id: str
    kind: str
    fence: int
    params: Mapping[str, Any] = field(repr=False)
    acquired_at: float
    attempt: int = 1
    is_write: bool = False
    send_within_seconds: float = 5.0
    timeout_seconds: float = 60.0
    mask: tuple[str, ...] = field(default=(), repr=False)
    # The request, execution, step and trace that it belongs to; older managers send none.
    trace_context: object = None

    @property
    def send_before(self) -> float:
        """Return the monotonic moment after which a write may no longer be sent."""
        return self.acquired_at + self.send_within_seconds


def parse_task(body: Mapping[str, Any], acquired_at: float) -> AgentTask:
    """Return the task of one entry of an acquire answer. Raises `KeyError`, `TypeError`, `ValueError`."""
    return AgentTask(
        id=str(body["id"]),
        kind=str(body["kind"]),
        fence=int(body["fence"]),
        params=dict(body["params"]),
        acquired_at=acquired_at,
        attempt=int(body.get("attempt", 1)),
        is_write=bool(body.get("is_write", False)),
        send_within_seconds=float(body.get("send_within_seconds", 5)),
        timeout_seconds=float(body.get("timeout_seconds", 60)),
        mask=tuple(str(text) for text in body.get("mask") or ()),
        trace_context=body.get("trace_context"),
    )


@dataclass(eq=False)
class HeldTask:
    """A task while the agent has it. `stopped` is set when its work is of no more use."""

    task: AgentTask
    stopped: threading.Event = field(default_factory=threading.Event)
    is_aborted: bool = False
    is_lost: bool = False

    @property
    def seconds_left(self) -> float:
        return self.task.acquired_at + self.task.timeout_seconds - time.monotonic()


class HeldTasks:
    """Current tasks of the agent, safe to use from every loop."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.freed = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.ended_count = 0
        self.failed_count = 0
        self._tasks_by_id: dict[str, HeldTask] = {}
        self._peaks: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return max(0, self.capacity - len(self._tasks_by_id))

    def add(self, task: AgentTask) -> HeldTask:
        """Add a task; an older attempt of the same task becomes lost."""
        with self._lock:
            if older := self._tasks_by_id.get(task.id):
                _stop(older, is_lost=True)
            held_task = self._tasks_by_id[task.id] = HeldTask(task)
            now = self._count()
            self._peaks = {
                reader: (max(peak[0], now[0]), max(peak[1], now[1])) for reader, peak in self._peaks.items()
            }
            self.idle.clear()
        return held_task

    def remove(self, held_task: HeldTask, *, failed: bool) -> None:
        with self._lock:
            if self._tasks_by_id.get(held_task.task.id) is held_task:
                del self._tasks_by_id[held_task.task.id]
            self.ended_count += 1
            self.failed_count += failed
            if not self._tasks_by_id:
                self.idle.set()
        self.freed.set()

    def list_running(self) -> list[HeldTask]:
        with self._lock:
            return list(self._tasks_by_id.values())

    def read_peak_counts(self, reader: str) -> tuple[int, int]:
        """Return the highest numbers of tasks and checks at once since the caller's last call (R077)."""
        with self._lock:
            now = self._count()
            peak, self._peaks[reader] = self._peaks.get(reader, now), now
        return peak

    def _count(self) -> tuple[int, int]:
        checks = sum(held_task.task.kind.lower() == VALIDATING for held_task in self._tasks_by_id.values())
        return len(self._tasks_by_id) - checks, checks

    def list_fences(self) -> dict[str, int]:
        """Return the fences of the current tasks by their ids, as they are reported to the manager."""
        return {held_task.task.id: held_task.task.fence for held_task in self.list_running()}

    def stop(
        self, aborted: Iterable[str], lost: Iterable[str], *, fences: Mapping[str, int] | None = None
    ) -> None:
        """Stop the tasks that the manager withdrew.

        `fences` are those of the request that it answered; without them every attempt is meant.
        """
        with self._lock:
            for task_ids, is_lost in ((lost, True), (aborted, False)):
                for task_id in task_ids:
                    held_task = self._tasks_by_id.get(task_id)
                    # The task may have come back with a new fence since the request.
                    if held_task and (fences is None or fences.get(task_id) == held_task.task.fence):
                        _stop(held_task, is_lost=is_lost)

    def stop_all(self) -> None:
        """Stop all tasks after the session of this instance has ended."""
        self.stop([], [held_task.task.id for held_task in self.list_running()])


def _stop(held_task: HeldTask, *, is_lost: bool) -> None:
    held_task.is_lost = held_task.is_lost or is_lost
    held_task.is_aborted = held_task.is_aborted or not is_lost
    held_task.stopped.set()
