"""Context that an executor gets with its task, and the results it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from delegates.agent.isolation import Isolation, detect_isolation
from guards.address_policy import PRIVATE_ALLOWED, AddressPolicy
from guards.limits import AGENT_BYTES
from guards.masks import EMPTY_MASK, SecretMask
from guards.safe_http import RequestPolicy
from guards.text import sanitize_text, truncate_text


class TaskLogSink(Protocol):
    """Destination of a task's log."""

    def write(self, level: str, text: str) -> None:
        """Add one line."""


# The rest of the message needs some bytes too.
_MAX_MESSAGE_RESULT_BYTES = AGENT_BYTES - 4096


@dataclass(frozen=True)
class ExecutorContext:
    """Functions of the agent that executors may use."""

    lines: TaskLogSink
    blocks_shell: bool = False
    allowed_operations: frozenset[str] = frozenset()
    # Files with OIDC tokens that connectors may name; None for all.
    token_files: frozenset[str] | None = frozenset()
    mask: SecretMask = EMPTY_MASK
    reach: AddressPolicy = PRIVATE_ALLOWED
    git_cache: Path | None = None
    isolation: Isolation = field(default_factory=detect_isolation)
    # Folder for tools that a preparing script shares with other tasks.
    tools: Path | None = None
    # Time for a terminated program to clean up.
    patience_seconds: float = 30.0
    # Most bytes of an encoded result; None without a message to the manager.
    max_result_bytes: int | None = _MAX_MESSAGE_RESULT_BYTES

    @property
    def way(self) -> RequestPolicy:
        """Return the request policy of tasks from the process's environment."""
        return RequestPolicy(self.reach, uses_environment_proxy=True)

    def write_lines(self, texts: Sequence[str], level: str = "INFO") -> None:
        """Add lines to the task's log, its secrets hidden, also where one runs over several lines."""
        for text in self.mask.mask_lines(texts):
            self.lines.write(level, truncate_text(sanitize_text(text)))


@dataclass(frozen=True)
class TaskResult:
    """Result of a task; `error` is an `AwsError` record, whose `capability` this delegate lacks."""

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


def build_success(result: Mapping[str, Any]) -> TaskResult:
    return TaskResult(TaskResult.SUCCEEDED, result=result)


def build_failure(
    code: str, message: str, *, capability: bool = False, kind: str = "TaskError"
) -> TaskResult:
    """Return a failure without an AWS call in the format of an AWS error."""
    return TaskResult(
        TaskResult.FAILED, error=_build_error_record(code, message, kind) | {"capability": capability}
    )


def build_not_sent(code: str, message: str) -> TaskResult:
    return TaskResult(
        TaskResult.NOT_SENT, error=_build_error_record(code, message, "NotSent") | {"capability": False}
    )


def build_aborted() -> TaskResult:
    return TaskResult(
        TaskResult.ABORTED,
        error=_build_error_record("Aborted", "the task was aborted", "TaskError") | {"capability": False},
    )


def _build_error_record(code: str, message: str, kind: str) -> dict[str, Any]:
    return {"kind": kind, "code": code, "message": message, "service": "", "operation": ""}
