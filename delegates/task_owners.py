"""Owners of delegate tasks: registry, and the parameters and answers of tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from delegates.models import DelegateTask
from guards.masks import SecretMask

EVENT_QUEUE_OWNER = "event-queue"
BAD_ANSWER = "BadAnswer"
"""Error code in place of an answer that does not match its task; the result of the task is unknown."""
ANSWER_REFUSED = "AnswerRefused"
"""Error code of an agent whose result the manager did not accept: the task ran, its result is unknown."""
BAD_ANSWERS = (BAD_ANSWER, ANSWER_REFUSED)


@dataclass(frozen=True)
class TaskPayload:
    """Parameters of a task for an agent; `mask` are the secret values among the parameters."""

    params: Mapping[str, Any] = field(repr=False)
    mask: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class TaskAnswer:
    """Final report of an agent: SUCCEEDED, FAILED, NOT_SENT or ABORTED, with the result or the error."""

    status: str
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    duration_ms: int = 0

    @property
    def is_bad(self) -> bool:
        """Return whether the agent's result was not accepted; the error then describes what is invalid."""
        return (self.error or {}).get("code") in BAD_ANSWERS


class TaskOwner(Protocol):
    """Callbacks of one kind of owner for its tasks; each method runs inside the transaction of the change."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the parameters with their secrets after recording the start; None withdraws the task."""

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Process the answer; the commit wakes the waiting work."""

    def requeue(self, task: DelegateTask, refusal: str = "") -> None:
        """Process a task that returns to the queue: its lease was lost, or its delegate could not begin it.

        `refusal` is a sentence with the delegate and its reason.
        """

    def record_lost(self, task: DelegateTask) -> None:
        """Process a lost lease; the result of the task is unknown."""

    def get_mask(self, task: DelegateTask) -> SecretMask:
        """Return the mask of log lines and errors, applied after the agent's own (R081)."""

    def keep_hidden_lines(self, task: DelegateTask, lines: Sequence[Mapping[str, Any]]) -> None:
        """Keep lines {"t", "level", "text"} that a `HidingMask` hides, encrypted, to show them later."""

    def publish_log(self, task: DelegateTask) -> None:
        """Publish new log lines of the task."""

    def record_unanswered(self, task: DelegateTask) -> None:
        """Process a task that ended without an answer: expired, aborted or impossible."""


_owners: dict[str, TaskOwner] = {}
_secret_results: set[str] = set()
_background: set[str] = set()


def register_task_owner(
    name: str, owner: TaskOwner, *, has_secret_results: bool = False, is_background: bool = False
) -> None:
    """Register an owner under the name in its tasks; secret results are stored in no row of the task.

    Background tasks are those that Slipway makes again and again, whoever uses it.
    """
    _owners[name] = owner
    if has_secret_results:
        _secret_results.add(name)
    if is_background:
        _background.add(name)


def list_background_owners() -> list[str]:
    """Return the names of the owners of background tasks."""
    return sorted(_background)


def has_secret_result(task: DelegateTask) -> bool:
    """Return whether only the owner of a task may store its result."""
    return task.owner in _secret_results


def get_task_owner(task: DelegateTask) -> TaskOwner | None:
    """Return the owner of a task, or None for a task without owner. Raises `KeyError` for an unknown kind."""
    return _owners[task.owner] if task.owner else None
