"""What a preview keeps of the steps that it has come past."""

import json
from dataclasses import dataclass, field
from typing import Any

from aws.preview import PreviewCaller
from deployments.models import Execution, StageExecution, StepExecution
from guards.masks import Mask


@dataclass
class StepMemory:
    """What a step remembers, learns and says."""

    step: StepExecution
    remembered: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Level and text."""
    slots: set[str] = field(default_factory=set)
    """The ECS services that it changes."""

    def recall(self, name: str) -> Any:
        text = self.remembered.get(name)
        return None if text is None else json.loads(text)

    def know(self, name: str) -> Any:
        return self.facts.get(name)


@dataclass
class StageMemory:
    """A stage as a run would begin it, and its steps as far as the preview has come."""

    execution: Execution
    stage: StageExecution
    caller: PreviewCaller
    mask: Mask
    steps: list[StepMemory] = field(default_factory=list)

    def outputs(self) -> dict[str, Any]:
        return {memory.step.identifier: {"output": memory.facts} for memory in self.steps}
