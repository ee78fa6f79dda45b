"""What a step remembers: the first value given stays, nothing is deleted (rule 11)."""

import json
from typing import Any

from deployments.models import Memory, StepExecution


class Memories:
    """The memory of one run of a step; new entries wait here for the next commit."""

    def __init__(self, step: StepExecution, run: int) -> None:
        self._step = step
        self._run = run
        self._kept = {m.name: m.value for m in Memory.objects.filter(step=step, run=run)}
        self._new: dict[str, str] = {}

    def remember(self, name: str, value: Any) -> Any:
        """Keep a value unless one of this name is there already; return the one that stays."""
        if name not in self._kept:
            self._kept[name] = self._new[name] = json.dumps(value)
        return json.loads(self._kept[name])

    def recall(self, name: str) -> Any:
        """What was remembered, or None."""
        text = self._kept.get(name)
        return None if text is None else json.loads(text)

    def flush(self) -> None:
        """Write what is new; inside a fenced commit."""
        rows = [Memory(step=self._step, run=self._run, name=n, value=v) for n, v in self._new.items()]
        Memory.objects.bulk_create(rows, ignore_conflicts=True)
        self._new = {}


class EarlierStep:
    """What a step before this one remembered in its last run, and what it learned."""

    def __init__(self, step: StepExecution) -> None:
        self._step = step
        self._memories = Memories(step, step.run)

    def recall(self, name: str) -> Any:
        """What that step remembered, or None."""
        return self._memories.recall(name)

    def know(self, name: str) -> Any:
        """A fact that is among the outputs of that step, or None."""
        return self._step.known_outputs.get(name)
