"""Results of rehearsals and of their steps, for pages and API."""

import re
from dataclasses import dataclass, field
from typing import Any

from deployments.preview.documents import PreviewDetails
from deployments.rehearsal.step_context import RehearsedStepData


@dataclass
class RehearsedStep:
    """Result of one step: SUCCEEDED, FAILED, NOT_REHEARSED, SKIPPED or NOT_REACHED, with `reason`."""

    step_data: RehearsedStepData
    status: str = "NOT_REACHED"
    reason: str = ""
    code: str = ""
    seconds: int = 0
    """Rehearsed seconds."""
    writes: list[str] = field(default_factory=list)

    @property
    def log(self) -> list[dict[str, Any]]:
        """Return the log lines with their rehearsed seconds."""
        lines = zip(self.step_data.times, self.step_data.lines, strict=True)
        return [{"at": at, "level": level, "text": text} for at, (level, text) in lines]

    def to_json(self) -> dict[str, Any]:
        step = self.step_data.step
        return {
            "identifier": step.identifier,
            "name": step.name,
            "type": step.type,
            "stage": step.stage.identifier,
            "status": self.status,
            "reason": self.reason,
            "code": self.code,
            "seconds": self.seconds,
            "writes": self.writes,
            "log": self.log,
        }


@dataclass
class RehearsalResult:
    """Result of a rehearsal; `status` is SUCCEEDED, FAILED or UNKNOWN, with the sentence in `reason`.

    The reason of one that succeeded counts the steps that were not rehearsed.
    """

    behavior: str
    artifact: dict[str, str]
    status: str = "UNKNOWN"
    reason: str = ""
    steps: list[RehearsedStep] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What could not be read, and what the sandbox assumes."""
    denied: list[str] = field(default_factory=list)
    """IAM actions that the sandbox denies, as IAM's simulation does."""
    seconds: int = 0
    """Rehearsed seconds."""
    preview: PreviewDetails | None = None
    """Preview of the same run."""

    @property
    def resource_counts(self) -> list[tuple[str, int]]:
        """Return the kinds of resources in words, with their numbers."""
        return [(re.sub("([A-Z])", r" \1", name).lower(), count) for name, count in self.resources.items()]

    def to_json(self) -> dict[str, Any]:
        """Return the document of a rehearsal."""
        return {
            "behavior": self.behavior,
            "artifact": self.artifact,
            "status": self.status,
            "reason": self.reason,
            "steps": [step.to_json() for step in self.steps],
            "resources": self.resources,
            "notes": self.notes,
            "denied": self.denied,
            "seconds": self.seconds,
        }
