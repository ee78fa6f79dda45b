"""Base class and registry of actions, and the errors that an action raises."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import (
    EarlierStep,
    StepContext,
)


class ActionFailed(Exception):
    """Failure of an action that cannot succeed; `message` is a sentence for the person watching.

    `outcome` is the outcome of the ECS deployment (DESIGN 5, Truth of the outcome). `last_output` are the
    redacted last lines of the failed container, `advice` says what to do about the cause.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        outcome: str = "FAILED",
        container: str = "",
        exit_code: int | None = None,
        last_output: Sequence[str] = (),
        advice: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.outcome = outcome
        self.container = container
        self.exit_code = exit_code
        self.last_output = tuple(last_output)
        self.advice = advice


class InterventionRequired(ActionFailed):
    """An undo that would do more than restore earlier state; a person must allow it (DESIGN 5)."""


class ChangedByOthers(ActionFailed):
    """A change outside Slipway to the state that this action would restore; the undo changes nothing."""

    def __init__(self, message: str) -> None:
        super().__init__("SUPERSEDED", message, outcome="SUPERSEDED")


@dataclass(frozen=True)
class ChecklistEntry:
    """One line of the checklist after a rollback."""

    subject: str
    expected: str
    actual: str
    ok: bool
    note: str = ""


@dataclass(frozen=True)
class Action:
    """One small operation inside a step. Safe to start twice; the engine owns waiting, retries and order."""

    version: ClassVar[int] = 1
    repeats: ClassVar[bool] = False
    """Whether a retry of the step repeats it even after success."""
    repeated_with: ClassVar[tuple[str, ...]] = ()
    """Earlier actions of its step that a retry repeats too, except after a timeout."""
    has_undo: ClassVar[bool] = False
    """Whether a rollback has anything to restore."""
    runs_always: ClassVar[bool] = False
    """Whether it also runs after the step failed, was aborted or was rolled back."""
    may_be_cut_short: ClassVar[bool] = False
    """Whether a person may skip it while it runs without leaving unknown state."""
    moves_traffic: ClassVar[bool] = False
    """Whether a rollback that cannot undo it asks a person first, because users could be cut off."""
    watches_timeout: ClassVar[bool] = False
    """Whether the action itself ends the step at its timeout."""
    supersedes_undo_of: ClassVar[tuple[str, ...]] = ()
    """Types of earlier steps of the stage that need no undo once this action is done."""

    @property
    def title(self) -> str:
        raise NotImplementedError

    def start(self, context: StepContext) -> None:
        """Perform the operation. A repetition after a crash gets the same answers and sends nothing twice."""

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        """Return whether a write whose answer was lost took effect; only reads."""
        raise NotImplementedError(f"{type(self).__name__} sends a write but cannot confirm it")

    def is_done(self, context: StepContext) -> bool:
        """Check with reads only; raise `ActionFailed` once the action cannot succeed.

        `request_write` lets the engine call `write` before the next check.
        """
        return True

    def write(self, context: StepContext) -> None:
        """Make the write that a check requested by `request_write`; repeated after a crash like `start`."""

    def check_at_timeout(self, context: StepContext) -> ActionFailed | bool:
        """Check a last time at the timeout; return True if the action is done, or the failure to report.

        The engine never makes a write that this check requests.
        """
        return self.is_done(context)

    def prepare_undo(self, context: StepContext) -> None:
        """Make the writes that must precede `may_undo`; most undos need none."""

    def may_undo(self, context: StepContext) -> bool:
        """Check before an undo: False means check again; `ChangedByOthers` forbids the undo."""
        return True

    def undo(self, context: StepContext) -> None:
        """Restore the state from before this action."""

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        """Return the same as `confirm`, for a write that `undo` sent."""
        return self.confirm(context, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        """Return sentences about `undo` for the person who approves it, from the `saved` data of the step."""
        return (f"Undo: {self.title}",)

    def is_undone(self, context: StepContext) -> bool:
        """Check with reads only whether the undo has taken effect."""
        return True

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        """Return the state from before this action and the state after the rollback, for comparison."""
        return []

    def parameters(self) -> dict[str, Any]:
        """Return the parameters to store, from which another process loads this action."""
        return asdict(self)


class UnknownActionError(Exception):
    """A stored action that this version of the program cannot run (DESIGN 5, rule 15)."""


A = TypeVar("A", bound=Action)
_ACTIONS: dict[str, type[Action]] = {}


def action(cls: type[A]) -> type[A]:
    """Register an action under its class name."""
    if cls.__name__ in _ACTIONS:
        raise ValueError(f"There are two actions named {cls.__name__}")
    _ACTIONS[cls.__name__] = cls
    return cls


def get_actions() -> Mapping[str, type[Action]]:
    """Return every action by name."""
    return _ACTIONS


def load_action(name: str, version: int, parameters: Mapping[str, Any]) -> Action:
    """Return a stored action.

    Raises `UnknownActionError` when this version lacks the name, the version or a parameter.
    """
    cls = _ACTIONS.get(name)
    if cls is None or cls.version != version:
        raise UnknownActionError(f"Unknown action in this version of Slipway: {name} version {version}.")
    try:
        return cls(**parameters)
    except TypeError as exc:
        raise UnknownActionError(f"Action {name} was stored with other parameters: {exc}") from exc


class BadStepSettingError(ValueError):
    """An invalid setting of a step; `path` is its location below the step's spec."""

    def __init__(self, message: str, path: tuple[str, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
