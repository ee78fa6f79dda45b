"""Base class and registry of actions, and the errors that an action raises."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import (
    EarlierStep,
    StepContext,
)


class ActionFailed(Exception):
    """What the action wanted is not going to happen; `message` is a sentence for the person watching.

    `outcome` is the word of DESIGN 5 (Truth of the outcome) for how the ECS deployment ended.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        outcome: str = "FAILED",
        container: str = "",
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.outcome = outcome
        self.container = container
        self.exit_code = exit_code


class InterventionRequired(ActionFailed):
    """An undo would do more than put something back: a person decides whether it may (DESIGN 5)."""


class ChangedByOthers(ActionFailed):
    """Somebody else has changed what this action would put back; nothing may be touched."""

    def __init__(self, message: str) -> None:
        super().__init__("SUPERSEDED", message, outcome="SUPERSEDED")


@dataclass(frozen=True)
class ChecklistEntry:
    """One line of a rollback's checklist."""

    subject: str
    expected: str
    found: str
    ok: bool
    note: str = ""


@dataclass(frozen=True)
class Action:
    """One small thing inside a step. Safe to start twice; the engine owns waiting, retries and order."""

    version: ClassVar[int] = 1
    repeats: ClassVar[bool] = False
    """Whether a retry of the step does it again even where it was done."""
    again_with: ClassVar[tuple[str, ...]] = ()
    """Actions before it in its step that a retry does again too, unless it only ran out of time."""
    has_undo: ClassVar[bool] = False
    """Whether a rollback has anything to put back here."""
    runs_always: ClassVar[bool] = False
    """A `Finally` action: also runs when the step failed, was aborted or was rolled back."""
    may_be_cut_short: ClassVar[bool] = False
    """Whether a person who skips it leaves nothing unknown behind."""
    moves_traffic: ClassVar[bool] = False
    """Whether what a rollback would do next could cut off users if this one is not undone: then it asks."""
    watches_timeout: ClassVar[bool] = False
    """Whether this action itself says when the time-out of its step is over."""
    settles: ClassVar[tuple[str, ...]] = ()
    """Types of earlier steps of the stage that need no undo any more once this action is done."""

    @property
    def title(self) -> str:
        raise NotImplementedError

    def start(self, context: StepContext) -> None:
        """Do it. Run again after a death, it sees the same answers and sends nothing twice."""

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        """Say of a write without an answer whether it happened; only reads."""
        raise NotImplementedError(f"{type(self).__name__} sends a write but cannot confirm it")

    def is_done(self, context: StepContext) -> bool:
        """Check with reads only; raise `ActionFailed` where it cannot succeed any more."""
        return True

    def check_at_timeout(self, context: StepContext) -> ActionFailed | bool:
        """Check a last time at the timeout: True if the action is done, or the reason why not."""
        return False

    def prepare_undo(self, context: StepContext) -> None:
        """What must be written before `may_undo` can come true; most undos need nothing."""

    def may_undo(self, context: StepContext) -> bool:
        """Check before an undo: False means check again; `ChangedByOthers` forbids the undo."""
        return True

    def undo(self, context: StepContext) -> None:
        """Put back what this action found."""

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        """As `confirm`, for a write that `undo` sent."""
        return self.confirm(context, call)

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        """Describe `undo` for the person who decides about it, from the `saved` data of the step."""
        return (f"Undo: {self.title}",)

    def is_undone(self, context: StepContext) -> bool:
        """Check with reads only whether the undo has taken effect."""
        return True

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        """After a rollback: what this action found before, beside what is there now."""
        return []

    def parameters(self) -> dict[str, Any]:
        """What a row keeps of this action, to make it again in another process."""
        return asdict(self)


class UnknownActionError(Exception):
    """A stored action is not one that this version of the program can run (DESIGN 5, rule 15)."""


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
    """Make a stored action again.

    Raises `UnknownActionError` when the name, the version or a parameter is not known here.
    """
    cls = _ACTIONS.get(name)
    if cls is None or cls.version != version:
        raise UnknownActionError(f"Unknown action in this version of Slipway: {name} version {version}.")
    try:
        return cls(**parameters)
    except TypeError as exc:
        raise UnknownActionError(f"Action {name} was stored with other parameters: {exc}") from exc


class BadStepSettingError(ValueError):
    """A setting of a step cannot be; `path` is where it stands below the step's spec."""

    def __init__(self, message: str, path: tuple[str, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
