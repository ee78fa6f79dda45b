"""Which ECS tasks a step has started: those whose start was answered, and those that only AWS knows of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steps.actions.base import Rollout

TASKS_PER_CALL = 10
STATUSES = ("RUNNING", "STOPPED")


@dataclass(frozen=True)
class Try:
    """One try of running the tasks; `key` tells it from others of the same step."""

    key: str
    rollout: Rollout

    def remember_before(self) -> None:
        """Note which tasks this execution started earlier, so that they are never taken for ours."""
        self.rollout.remember(f"{self.key} before", started_by_us(self.rollout))

    def begin(self, number: int, count: int) -> None:
        """Say that a call for so many tasks is about to be made."""
        self.rollout.remember(f"{self.key} batch {number}", count)

    def end(self, number: int, arns: Sequence[str]) -> None:
        """Say what a call has started."""
        self.rollout.remember(f"{self.key} tasks {number}", list(arns))

    def answered(self) -> list[str]:
        """The tasks of every call that was answered."""
        return [arn for number in self._batches() for arn in self._recall(f"tasks {number}") or []]

    def open_batches(self) -> list[int]:
        """The calls that were about to be made, and whose answer nobody has noted."""
        return [number for number in self._batches() if self._recall(f"tasks {number}") is None]

    def not_yet_known(self) -> list[str]:
        """The tasks that AWS shows as started by this execution and that no answer accounts for."""
        accounted = {*(self._recall("before") or []), *self.answered()}
        return [arn for arn in started_by_us(self.rollout) if arn not in accounted]

    def _batches(self) -> list[int]:
        numbers: list[int] = []
        while self._recall(f"batch {len(numbers)}") is not None:
            numbers.append(len(numbers))
        return numbers

    def _recall(self, name: str) -> Any:
        return self.rollout.recall(f"{self.key} {name}")


def started_by_us(rollout: Rollout) -> list[str]:
    """Every task that this execution has started, running or stopped within the last hour."""
    return [
        arn
        for status in STATUSES
        for arn in rollout.ecs.list_tasks_started_by(rollout.cluster, rollout.execution_id, status)
    ]


def begin_try(rollout: Rollout) -> Try:
    """The try that begins now; other actions of the step find it as the current one."""
    number = 0
    while (known := rollout.recall(f"try {number}")) not in (None, rollout.intent):
        number += 1
    rollout.remember(f"try {number}", rollout.intent)
    return Try(known or rollout.intent, rollout)


def current_try(rollout: Rollout) -> Try | None:
    """The newest try of this step; None if none has begun."""
    key, number = "", 0
    while known := rollout.recall(f"try {number}"):
        key, number = known, number + 1
    return Try(key, rollout) if key else None
