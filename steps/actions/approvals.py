"""Action that requests an approval, and the settings of its approvers and inputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from guards.limits import (
    APPROVAL_GROUPS,
    APPROVAL_INPUT_CHARACTERS,
    APPROVAL_INPUTS,
    APPROVALS_NEEDED,
    NAME_CHARACTERS,
)
from steps.actions.base import Action, ActionFailed, BadStepSettingError, action
from steps.actions.context import ApprovalRequest, StepContext
from steps.expressions import has_expression

APPROVAL_REJECTED = "APPROVAL_REJECTED"
APPROVAL_EXPIRED = "APPROVAL_EXPIRED"


@action
@dataclass(frozen=True)
class RequestApproval(Action):
    """Wait until enough members of the groups have approved what comes next."""

    repeats: ClassVar[bool] = True
    watches_timeout: ClassVar[bool] = True

    message: str
    groups: list[str]
    minimum: int = 1
    without_executor: bool = False
    inputs: list[Mapping[str, Any]] = field(default_factory=list)
    with_history: bool = False

    @property
    def title(self) -> str:
        who = ", ".join(self.groups)
        return f"Wait for {self.minimum} approval{'' if self.minimum == 1 else 's'} from {who}"[:255]

    def start(self, context: StepContext) -> None:
        context.request_approval(
            ApprovalRequest(
                message=self.message,
                groups=tuple(self.groups),
                minimum=self.minimum,
                without_executor=self.without_executor,
                inputs=tuple(self.inputs),
                with_history=self.with_history,
            )
        )

    def is_done(self, context: StepContext) -> bool:
        state = context.get_approval_state()
        if state.verdict == "REJECTED":
            reason = f": {state.comment}" if state.comment else ""
            raise ActionFailed(APPROVAL_REJECTED, f"{state.by} rejected this{reason}", outcome="")
        if state.verdict == "EXPIRED":
            missing = self.minimum - len(state.approvers)
            raise ActionFailed(
                APPROVAL_EXPIRED,
                f"Approval timed out: {missing} more approval{'' if missing == 1 else 's'} of "
                f"{', '.join(self.groups)} required. Retry to request approval again.",
                outcome="TIMED_OUT",
            )
        if state.verdict != "APPROVED":
            return False
        context.set_outputs(approvers=list(state.approvers), approverInputs=dict(state.inputs))
        return True


_GROUPS = ("approvers", "userGroups")


@dataclass(frozen=True)
class Approvers:
    """Whose approval counts, and how many of them have to give it."""

    userGroups: tuple[str, ...] = field(
        metadata={
            "help": "Groups of the pipeline's scope or the nearest above; account.x and org.x name one."
        }
    )
    minimumCount: int = field(default=1, metadata={"help": "How many of their members have to approve."})
    disallowPipelineExecutor: bool = field(
        default=False, metadata={"help": "Whether who started the run may not approve it."}
    )

    @classmethod
    def from_written(cls, value: Any) -> Self:
        """Read what a pipeline says under `approvers`; expressions count as right.

        Raises `BadStepSettingError`.
        """
        written = _mapping(value, cls, ("approvers",))
        groups = written.get("userGroups")
        if not isinstance(groups, list | tuple) or not groups or not all(map(_is_name, groups)):
            raise BadStepSettingError(
                "userGroups lists the groups whose members can approve, one at least", _GROUPS
            )
        if len(groups) > APPROVAL_GROUPS:
            raise BadStepSettingError(
                f"userGroups names {len(groups)} groups; {APPROVAL_GROUPS} at most", _GROUPS
            )
        return cls(tuple(dict.fromkeys(groups)), _count(written), _flag(written, "disallowPipelineExecutor"))


@dataclass(frozen=True)
class ApproverInput:
    """One thing that approvers fill in; it becomes an output of the step."""

    name: str
    defaultValue: str = ""
    allowedValues: tuple[str, ...] = ()
    required: bool = False

    @classmethod
    def from_written(cls, value: Any, place: tuple[str, ...]) -> Self:
        """Read one entry of `approverInputs`. Raises `BadStepSettingError`."""
        written = _mapping(value, cls, place)
        name, allowed = written.get("name"), written.get("allowedValues", ())
        if not _is_name(name):
            raise BadStepSettingError(
                f"name is a text of {NAME_CHARACTERS} characters at most", (*place, "name")
            )
        if not isinstance(allowed, list | tuple) or len(allowed) > APPROVAL_INPUTS:
            at_most = f"allowedValues lists {APPROVAL_INPUTS} values at most"
            raise BadStepSettingError(at_most, (*place, "allowedValues"))
        default = _text(written.get("defaultValue", ""), (*place, "defaultValue"))
        values = tuple(_text(one, (*place, "allowedValues")) for one in allowed)
        if default and values and default not in values and not has_expression(default):
            raise BadStepSettingError(f"{default} is none of the allowedValues", (*place, "defaultValue"))
        return cls(str(name), default, values, _flag(written, "required", place))


def parse_approver_inputs(value: Any) -> tuple[ApproverInput, ...]:
    """Read what a pipeline says under `approverInputs`. Raises `BadStepSettingError`."""
    here = ("approverInputs",)
    if not isinstance(value, list | tuple) or len(value) > APPROVAL_INPUTS:
        raise BadStepSettingError(f"approverInputs is a list of {APPROVAL_INPUTS} inputs at most", here)
    found = [ApproverInput.from_written(one, (*here, str(at))) for at, one in enumerate(value)]
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadStepSettingError(f"two inputs are called {twice}", here)
    return tuple(found)


def _mapping(value: Any, cls: Any, place: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadStepSettingError(f"{place[-1]} must be a mapping, not {value!r}", place)
    for name in value:
        if name not in cls.__dataclass_fields__:
            known = ", ".join(cls.__dataclass_fields__)
            raise BadStepSettingError(
                f"there is no field {name} here; there are {known}", (*place, str(name))
            )
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_CHARACTERS


def _count(written: Mapping[str, Any]) -> int:
    value = written.get("minimumCount", 1)
    if isinstance(value, str) and has_expression(value):
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= APPROVALS_NEEDED:
        sentence = f"minimumCount must be a whole number from 1 to {APPROVALS_NEEDED}, not {value!r}"
        raise BadStepSettingError(sentence, ("approvers", "minimumCount"))
    return value


def _flag(written: Mapping[str, Any], name: str, place: tuple[str, ...] = ("approvers",)) -> bool:
    value = written.get(name, False)
    if isinstance(value, str) and has_expression(value):
        return False
    if not isinstance(value, bool):
        raise BadStepSettingError(f"{name} must be true or false, not {value!r}", (*place, name))
    return value


def _text(value: Any, place: tuple[str, ...]) -> str:
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str) or len(text) > APPROVAL_INPUT_CHARACTERS:
        raise BadStepSettingError(
            f"{place[-1]}: a text of {APPROVAL_INPUT_CHARACTERS} characters at most", place
        )
    return text
