"""What an action is, what it is handed, and the ways in which it can end."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

from aws.cloudformation import CloudFormation
from aws.cloudwatch import CloudWatch
from aws.ecs import Ecs
from aws.elb import Elb
from aws.logs import Logs
from aws.scaling import Scaling
from aws.types import EcsService
from steps.actions.asked import ApprovalState, AskedApproval
from steps.actions.provisions import Provisions
from steps.actions.supplies import Supplies
from steps.actions.work import Work


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


class AskFirst(ActionFailed):
    """An undo would do more than put something back: a person decides whether it may (DESIGN 5)."""


class NotOurs(ActionFailed):
    """Somebody else has changed what this action would put back; nothing may be touched."""

    def __init__(self, message: str) -> None:
        super().__init__("SUPERSEDED", message, outcome="SUPERSEDED")


@dataclass(frozen=True)
class CallRecord:
    """A write in the journal whose answer is unknown."""

    service: str
    operation: str
    params: Mapping[str, Any]
    sent_at: datetime
    send_number: int


@dataclass(frozen=True)
class Happened:
    """The write took effect; `answer` is what AWS would have said, as far as the world shows it."""

    answer: Mapping[str, Any]


@dataclass(frozen=True)
class DidNot:
    """The write took no effect and may be sent again."""


@dataclass(frozen=True)
class AskAgain:
    """The world does not show yet whether the write took effect."""


@dataclass(frozen=True)
class NobodyKnows:
    """Nothing can show whether the write took effect, and it must not be sent again: it counts as failed."""

    code: str
    message: str


Verdict = Happened | DidNot | AskAgain | NobodyKnows


@dataclass(frozen=True)
class Seen:
    """What the world showed of the ECS service of this name; `begun` is when that look at the world began."""

    name: str
    service: EcsService | None
    begun: datetime


@dataclass(frozen=True)
class Check:
    """One line of a rollback's checklist."""

    subject: str
    expected: str
    found: str
    ok: bool
    note: str = ""


class Earlier(Protocol):
    """A step that ran before this one in the same stage: what it remembered, and what it learned."""

    def recall(self, name: str) -> Any: ...
    def know(self, name: str) -> Any: ...


class Rollout(Protocol):
    """The execution under way, as an action sees it: AWS verbs, memory, facts, log."""

    @property
    def cluster(self) -> str: ...
    @property
    def ecs(self) -> Ecs: ...
    @property
    def scaling(self) -> Scaling: ...
    @property
    def logs(self) -> Logs: ...
    @property
    def elb(self) -> Elb: ...
    @property
    def cloudwatch(self) -> CloudWatch: ...
    @property
    def work(self) -> Work: ...
    @property
    def provisions(self) -> Provisions: ...
    @property
    def supplies(self) -> Supplies: ...
    @property
    def region(self) -> str:
        """The region that the step names, else that of the stage; empty while nothing has settled it."""
        ...

    @property
    def cloudformation(self) -> CloudFormation: ...

    @property
    def execution_id(self) -> str:
        """The id of the execution, 36 characters, by which AWS can tell who started an ECS task."""
        ...

    @property
    def force_new_deployment(self) -> bool | None:
        """What the request of the run says of replacing tasks where nothing differs; None: nothing."""
        ...

    @property
    def was_asked(self) -> bool:
        """Whether a person has asked for this undo again after it had been given up, and why was told."""
        ...

    @property
    def written_at(self) -> datetime | None:
        """When the start of this action last sent a write that AWS did not refuse."""
        ...

    @property
    def intent(self) -> str:
        """A text that names this action of this execution in this attempt, at most 36 characters."""
        ...

    @property
    def progress(self) -> dict[str, Any]:
        """What earlier looks of this action noted; changes are kept with the look."""
        ...

    def earlier(self, step_type: str) -> Earlier | None:
        """The last step of this type before this one in the stage; None if there is none."""
        ...

    def account(self) -> str:
        """The AWS account behind the connector."""
        ...

    def take_slot(self, ecs_service: str, *, is_main: bool = True) -> None:
        """Hold the right to change this ECS service until the stage or its rollback ends (rule 13).

        `is_main` unless it may be another ECS service than the one that the stage deploys.
        """
        ...

    def remember(self, name: str, value: Any) -> Any:
        """Keep what undo will need. The first value given stays; it is returned."""
        ...

    def recall(self, name: str) -> Any: ...
    def learn_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        """Hand on what a person named: as `learn`, and hidden from everybody where it is a secret."""
        ...

    def value_of(self, path: str) -> Any:
        """What an expression comes to now; raises `ActionFailed` naming the nearest one that is known."""
        ...

    def learn(self, **facts: Any) -> None:
        """Hand facts to later actions, to expressions and to the outputs tab."""
        ...

    def know(self, name: str) -> Any: ...
    def log(self, text: str, level: str = "info") -> None: ...
    def note(self, text: str) -> None:
        """Log a warning, and keep it beside the outcome: somebody interfered, or the result needs a word."""
        ...

    def now(self) -> datetime: ...
    def see_service(self, name: str) -> Seen:
        """The ECS service in a snapshot begun after this step's last write was answered (rule 10)."""
        ...

    def await_service(self, name: str) -> None:
        """Let this action wait for an ECS service from now on: the first look comes at its next turn."""
        ...

    def rest(self, until: datetime | None = None) -> None:
        """Say of this look that another one would say the same while the ECS service looks the same.

        At `until` it wants to look again all the same.
        """
        ...

    def sleep(self, until: datetime) -> None:
        """Look again at that moment and not before, however the ECS service looks meanwhile."""
        ...

    def ask_approval(self, asked: AskedApproval) -> None:
        """Ask people to approve what the steps after this one would do; asking again changes nothing.

        Raises `ActionFailed` where a group does not exist.
        """
        ...

    def approval_state(self) -> ApprovalState:
        """What has become of the approval that this action asked for."""
        ...

    def show_counts(self, *, running: int, desired: int, pending: int) -> None: ...


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

    def start(self, rollout: Rollout) -> None:
        """Do it. Run again after a death, it sees the same answers and sends nothing twice."""

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        """Say of a write without an answer whether it happened; only reads."""
        raise NotImplementedError(f"{type(self).__name__} sends a write but cannot adopt it")

    def is_done(self, rollout: Rollout) -> bool:
        """One look, read only; raises `ActionFailed` when it will never be."""
        return True

    def last_look(self, rollout: Rollout) -> ActionFailed | bool:
        """One last look when the step's time is over: True if it is done after all, or why it is not."""
        return False

    def prepare_undo(self, rollout: Rollout) -> None:
        """What must be written before `may_undo` can come true; most undos need nothing."""

    def may_undo(self, rollout: Rollout) -> bool:
        """One look before an undo: False means look again, `NotOurs` that it must not be."""
        return True

    def undo(self, rollout: Rollout) -> None:
        """Put back what this action found."""

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        """As `adopt`, for a write that `undo` sent."""
        return self.adopt(rollout, call)

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        """What `undo` would do, for a person who decides about it; `known` is what this step has kept."""
        return (f"Undo: {self.title}",)

    def is_undone(self, rollout: Rollout) -> bool:
        """One look, read only, at whether the undo has taken hold."""
        return True

    def checklist(self, rollout: Rollout) -> list[Check]:
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
    _ACTIONS[cls.__name__] = cls
    return cls


def known_actions() -> Mapping[str, type[Action]]:
    """Every action by name."""
    return _ACTIONS


def load_action(name: str, version: int, parameters: Mapping[str, Any]) -> Action:
    """Make a stored action again.

    Raises `UnknownActionError` when the name, the version or a parameter is not known here.
    """
    cls = _ACTIONS.get(name)
    if cls is None or cls.version != version:
        raise UnknownActionError(f"This version of Slipway does not know action {name} version {version}.")
    try:
        return cls(**parameters)
    except TypeError as exc:
        raise UnknownActionError(f"Action {name} was stored with other parameters: {exc}") from exc
