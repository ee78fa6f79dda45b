"""What an executor gets beside its task, and what it gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from delegates.agent.isolation import Isolation, own_isolation
from guards.addresses import PRIVATE_TOO, Reach
from guards.masks import NOTHING_SECRET, Mask
from guards.safe_http import Way
from guards.text import clean, cut


class Lines(Protocol):
    """Where a task's log goes."""

    def write(self, level: str, text: str) -> None:
        """Add one line."""


@dataclass(frozen=True)
class Surroundings:
    """What an executor may use of the program around it."""

    lines: Lines
    blocks_shell: bool = False
    allowed_operations: frozenset[str] = frozenset()
    mask: Mask = NOTHING_SECRET
    reach: Reach = PRIVATE_TOO
    git_cache: Path | None = None
    isolation: Isolation = field(default_factory=own_isolation)
    # Where a script that prepares the delegate leaves what other tasks may use.
    tools: Path | None = None
    # How long a program that was told to stop may take to leave things in order.
    patience_seconds: float = 30.0

    @property
    def way(self) -> Way:
        """How requests of tasks leave: as the process's own environment says."""
        return Way(self.reach, from_environment=True)

    def tell(self, texts: Sequence[str], level: str = "INFO") -> None:
        """Add lines to the task's log, its secrets hidden, also where one runs over several lines."""
        for text in self.mask.texts(texts):
            self.lines.write(level, cut(clean(text)))


@dataclass(frozen=True)
class Answer:
    """How a task ended; `error` is an `AwsError` record with `capability`: this delegate cannot do it."""

    SUCCEEDED: ClassVar[str] = "SUCCEEDED"
    FAILED: ClassVar[str] = "FAILED"
    NOT_SENT: ClassVar[str] = "NOT_SENT"
    ABORTED: ClassVar[str] = "ABORTED"

    status: str
    result: Mapping[str, Any] | None = field(default=None, repr=False)
    error: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "result": dict(self.result) if self.result is not None else None,
            "error": dict(self.error) if self.error is not None else None,
        }


def succeeded(result: Mapping[str, Any]) -> Answer:
    return Answer(Answer.SUCCEEDED, result=result)


def failed(code: str, message: str, *, capability: bool = False, kind: str = "TaskError") -> Answer:
    """A failure that no AWS call stands behind, in the shape of one."""
    return Answer(Answer.FAILED, error=_record(code, message, kind) | {"capability": capability})


def not_sent(code: str, message: str) -> Answer:
    return Answer(Answer.NOT_SENT, error=_record(code, message, "NotSent") | {"capability": False})


def aborted() -> Answer:
    return Answer(
        Answer.ABORTED, error=_record("Aborted", "the task was aborted", "TaskError") | {"capability": False}
    )


def _record(code: str, message: str, kind: str) -> dict[str, Any]:
    return {"kind": kind, "code": code, "message": message, "service": "", "operation": ""}
