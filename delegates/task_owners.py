"""Owners of delegate tasks: registry, payloads handed out and answers handed back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from delegates.models import DelegateTask

BAD_ANSWER = "BadAnswer"
"""The code of the error in place of an answer that does not fit its task: nobody knows what was done."""


@dataclass(frozen=True)
class TaskPayload:
    """What an agent gets when it takes a task; `mask` are the secret values among the parameters."""

    params: Mapping[str, Any] = field(repr=False)
    mask: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class TaskAnswer:
    """What an agent said at the end: SUCCEEDED, FAILED, NOT_SENT or ABORTED, and the result or the error."""

    status: str
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    duration_ms: int = 0

    @property
    def is_bad(self) -> bool:
        """Whether the agent's own answer did not fit the task, and this says what was wrong with it."""
        return (self.error or {}).get("code") == BAD_ANSWER


class TaskOwner(Protocol):
    """What one kind of owner does for its tasks; each method runs inside the transaction of the change."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """The parameters with their secrets, once the owner has noted the start; None withdraws the task."""

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Take the answer; what waits for it is woken on commit."""

    def again(self, task: DelegateTask) -> None:
        """The lease was lost and the task goes back to the queue."""

    def lost(self, task: DelegateTask) -> None:
        """The lease was lost and nobody knows what became of the task."""

    def secrets(self, task: DelegateTask) -> Sequence[str]:
        """What no line and no error of the task may show, whatever its agent hides (R081)."""

    def logged(self, task: DelegateTask) -> None:
        """Lines have come that the task wrote."""

    def gave_up(self, task: DelegateTask) -> None:
        """The task ended without ever being answered: expired, aborted, or nobody can do it."""


_owners: dict[str, TaskOwner] = {}


def register_task_owner(name: str, owner: TaskOwner) -> None:
    """Enter an owner under the name that its tasks carry."""
    _owners[name] = owner


def get_task_owner(task: DelegateTask) -> TaskOwner | None:
    """The owner of a task; None where it carries all of itself. Raises `KeyError` for an unknown one."""
    return _owners[task.owner] if task.owner else None
