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
from steps.actions.context import ApprovalRequest, ApprovalState, StepContext
from steps.expressions import format_value, has_expression

APPROVAL_REJECTED = "APPROVAL_REJECTED"
APPROVAL_EXPIRED = "APPROVAL_EXPIRED"


@action
@dataclass(frozen=True)
class RequestApproval(Action):
    """Wait until enough members of the groups have approved the later steps."""

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
        groups = ", ".join(self.groups)
        return f"Wait for {self.minimum} approval{'' if self.minimum == 1 else 's'} from {groups}"[:255]

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
            raise ActionFailed(APPROVAL_REJECTED, describe_rejection(state), outcome="")
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


def describe_rejection(state: ApprovalState) -> str:
    """Return the sentence for a rejected approval."""
    return f"{state.by} rejected this{f': {state.comment}' if state.comment else ''}"


_GROUPS = ("approvers", "userGroups")


@dataclass(frozen=True)
class Approvers:
    """Groups whose members may approve, and the number of approvals needed."""

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
    def from_document(cls, value: Any) -> Self:
        """Parse `approvers` of a pipeline; expressions are accepted.

        Raises `BadStepSettingError`.
        """
        fields = _mapping(value, cls, ("approvers",))
        groups = fields.get("userGroups")
        if not isinstance(groups, list | tuple) or not groups or not all(map(_is_name, groups)):
            raise BadStepSettingError(
                "userGroups lists the groups whose members can approve, one at least", _GROUPS
            )
        if len(groups) > APPROVAL_GROUPS:
            raise BadStepSettingError(
                f"userGroups names {len(groups)} groups; {APPROVAL_GROUPS} at most", _GROUPS
            )
        return cls(tuple(dict.fromkeys(groups)), _count(fields), _flag(fields, "disallowPipelineExecutor"))


@dataclass(frozen=True)
class ApproverInput:
    """Field that approvers fill in; it becomes an output of the step."""

    name: str
    defaultValue: str = ""
    allowedValues: tuple[str, ...] = ()
    required: bool = False

    @classmethod
    def from_document(cls, value: Any, path: tuple[str, ...]) -> Self:
        """Parse one entry of `approverInputs`. Raises `BadStepSettingError`."""
        fields = _mapping(value, cls, path)
        name, allowed = fields.get("name"), fields.get("allowedValues", ())
        if not _is_name(name):
            raise BadStepSettingError(
                f"name is a text of {NAME_CHARACTERS} characters at most", (*path, "name")
            )
        if not isinstance(allowed, list | tuple) or len(allowed) > APPROVAL_INPUTS:
            message = f"allowedValues lists {APPROVAL_INPUTS} values at most"
            raise BadStepSettingError(message, (*path, "allowedValues"))
        default = _text(fields.get("defaultValue", ""), (*path, "defaultValue"))
        values = tuple(_text(item, (*path, "allowedValues")) for item in allowed)
        if default and values and default not in values and not has_expression(default):
            raise BadStepSettingError(f"{default} is none of the allowedValues", (*path, "defaultValue"))
        return cls(str(name), default, values, _flag(fields, "required", path))


def parse_approver_inputs(value: Any) -> tuple[ApproverInput, ...]:
    """Parse `approverInputs` of a pipeline. Raises `BadStepSettingError`."""
    path = ("approverInputs",)
    if not isinstance(value, list | tuple) or len(value) > APPROVAL_INPUTS:
        raise BadStepSettingError(f"approverInputs is a list of {APPROVAL_INPUTS} inputs at most", path)
    inputs = [ApproverInput.from_document(item, (*path, str(index))) for index, item in enumerate(value)]
    names = [item.name for item in inputs]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise BadStepSettingError(f"two inputs are called {duplicate}", path)
    return tuple(inputs)


def _mapping(value: Any, cls: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadStepSettingError(f"{path[-1]} must be a mapping, not {value!r}", path)
    for name in value:
        if name not in cls.__dataclass_fields__:
            names = ", ".join(cls.__dataclass_fields__)
            raise BadStepSettingError(f"there is no field {name} here; there are {names}", (*path, str(name)))
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_CHARACTERS


def _count(fields: Mapping[str, Any]) -> int:
    value = fields.get("minimumCount", 1)
    if isinstance(value, str) and has_expression(value):
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= APPROVALS_NEEDED:
        message = f"minimumCount must be a whole number from 1 to {APPROVALS_NEEDED}, not {value!r}"
        raise BadStepSettingError(message, ("approvers", "minimumCount"))
    return value


def _flag(fields: Mapping[str, Any], name: str, path: tuple[str, ...] = ("approvers",)) -> bool:
    value = fields.get(name, False)
    if isinstance(value, str) and has_expression(value):
        return False
    if not isinstance(value, bool):
        raise BadStepSettingError(f"{name} must be true or false, not {value!r}", (*path, name))
    return value


def _text(value: Any, path: tuple[str, ...]) -> str:
    text = format_value(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str) or len(text) > APPROVAL_INPUT_CHARACTERS:
        raise BadStepSettingError(
            f"{path[-1]}: a text of {APPROVAL_INPUT_CHARACTERS} characters at most", path
        )
    return text
