"""What a step saves for its rollback: the first value given stays, nothing is deleted (rule 11)."""

import json
from collections.abc import Mapping
from typing import Any

from deployments.models import Memory, StepExecution


class Memories:
    """The memory of one run of a step; `new` entries wait for the next commit."""

    def __init__(self, step: StepExecution, run: int, loaded: Mapping[str, Memory]) -> None:
        self._step = step
        self._run = run
        self._kept = dict(loaded)
        self.new: list[Memory] = []

    def remember(self, name: str, value: Any) -> Any:
        """Keep a value unless one of this name is there already; return the one that stays."""
        if name not in self._kept:
            self._kept[name] = Memory(step=self._step, run=self._run, name=name, value=json.dumps(value))
            self.new.append(self._kept[name])
        return json.loads(self._kept[name].value)

    def recall(self, name: str) -> Any:
        """What was remembered, or None."""
        found = self._kept.get(name)
        return None if found is None else json.loads(found.value)


class EarlierStep:
    """What a step before this one remembered in its last run, and what it learned."""

    def __init__(self, step: StepExecution, loaded: Mapping[str, Memory] | None = None) -> None:
        self._step = step
        if loaded is None:
            loaded = {one.name: one for one in Memory.objects.filter(step=step, run=step.run)}
        self._memories = Memories(step, step.run, loaded)

    def recall(self, name: str) -> Any:
        """What that step remembered, or None."""
        return self._memories.recall(name)

    def know(self, name: str) -> Any:
        """A fact that is among the outputs of that step, or None."""
        return self._step.known_outputs.get(name)
