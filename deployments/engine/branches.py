"""Whose turn it is among the steps that are current: within one look, each goes on until it has to wait."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from deployments.models import StepExecution


@dataclass
class Turns:
    """What the steps of one look wait for, and how often each went on; a look has one for all its commits."""

    _until: dict[int, datetime] = field(default_factory=dict)
    _taken: Counter[int] = field(default_factory=Counter)

    def next_of(self, steps: Sequence[StepExecution]) -> StepExecution | None:
        """The step that goes on now: of those that need not wait, the one that had the fewest turns."""
        ready = [step for step in steps if step.pk not in self._until]
        found = min(ready, key=lambda step: (self._taken[step.pk], step.position), default=None)
        if found is not None:
            self._taken[found.pk] += 1
        return found

    def wait(self, step: StepExecution, until: datetime) -> None:
        """This step has nothing to do before that moment."""
        self._until[step.pk] = until

    def left(self, steps: Sequence[StepExecution], now: datetime) -> timedelta:
        """How long until the first of these steps goes on."""
        return max(min(self._until[step.pk] for step in steps) - now, timedelta(0))
