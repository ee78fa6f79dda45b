"""The step that waits for people."""

from dataclasses import asdict, dataclass, field
from typing import Any

from steps.actions.approval import AskForApproval
from steps.actions.approval_settings import ApproverInput, Approvers, read_inputs
from steps.actions.fail_fast import BadSetting
from steps.kinds.base import BadStepError, Plan, about, step, unit
from steps.kinds.columns import Column

# The type keeps the name that pipelines of this kind are written with (REQUIREMENTS 6).
APPROVAL = "HarnessApproval"
UNIT = "Approval"
DAY_MINUTES = 24 * 60
_STARTER = {
    "approvalMessage": "Deploy <+service.name> to <+env.name>?",
    "approvers": {"userGroups": ["approvers"], "minimumCount": 1, "disallowPipelineExecutor": True},
}


@dataclass(frozen=True)
class ApprovalSpec:
    """What approvers read, who they are, and what they fill in."""

    approvers: Approvers
    approvalMessage: str = field(default="", metadata=about("What approvers read first."))
    includePipelineExecutionHistory: bool = field(
        default=False, metadata=about("Show the runs before this one beside it.")
    )
    approverInputs: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=about(
            "What approvers fill in. Later steps write <+steps.IDENTIFIER.output.NAME>.",
            columns=(
                Column("name", is_needed=True),
                Column("defaultValue"),
                Column("allowedValues", "names"),
                Column("required", "flag"),
            ),
        ),
    )

    def __post_init__(self) -> None:
        """Raises `BadStepError`."""
        try:
            read_inputs(self.approverInputs)
        except BadSetting as bad:
            raise BadStepError(f"{APPROVAL}: {bad.message}", ("spec", *bad.path)) from bad

    @property
    def inputs(self) -> tuple[ApproverInput, ...]:
        """What approvers fill in, read."""
        return read_inputs(self.approverInputs)


@step(APPROVAL, spec=ApprovalSpec, title="Approval", timeout_minutes=DAY_MINUTES, starter=_STARTER)
def approval(spec: ApprovalSpec) -> Plan:
    """Wait until enough members of the groups have approved what the steps after this one would do."""
    yield unit(
        UNIT,
        AskForApproval(
            message=spec.approvalMessage,
            groups=list(spec.approvers.userGroups),
            minimum=spec.approvers.minimumCount,
            without_executor=spec.approvers.disallowPipelineExecutor,
            inputs=[asdict(one) for one in spec.inputs],
            with_history=spec.includePipelineExecutionHistory,
        ),
    )
