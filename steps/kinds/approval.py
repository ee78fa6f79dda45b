"""Approval step: waits until enough members of its groups have approved."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from steps.actions.approvals import ApproverInput, Approvers, RequestApproval, parse_approver_inputs
from steps.actions.base import BadStepSettingError
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit

# The type of existing pipelines (REQUIREMENTS 6).
APPROVAL_TYPE = "HarnessApproval"
APPROVAL_UNIT = "Approval"
DAY_MINUTES = 24 * 60
_STARTER = {
    "approvalMessage": "Deploy <+service.name> to <+env.name>?",
    "approvers": {"userGroups": ["approvers"], "minimumCount": 1, "disallowPipelineExecutor": True},
}


@dataclass(frozen=True)
class ApprovalSpec:
    """Settings of an approval: message, approvers and their inputs."""

    approvers: Approvers
    approvalMessage: str = field(
        default="", metadata=describe_field("What approvers read first.", is_multiline=True)
    )
    includePipelineExecutionHistory: bool = field(
        default=False, metadata=describe_field("Show the runs before this one beside it.")
    )
    approverInputs: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "What approvers fill in. Later steps write <+steps.IDENTIFIER.output.NAME>.",
            columns=(
                SpecColumn("name", is_needed=True),
                SpecColumn("defaultValue"),
                SpecColumn("allowedValues", "names"),
                SpecColumn("required", "flag"),
            ),
        ),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for invalid inputs."""
        try:
            parse_approver_inputs(self.approverInputs)
        except BadStepSettingError as bad:
            raise BadStepError(f"{APPROVAL_TYPE}: {bad.message}", ("spec", *bad.path)) from bad

    @staticmethod
    def list_declared_outputs(spec: Mapping[str, Any]) -> dict[str, str]:
        """Return an output for each input that the spec requests from approvers."""
        inputs = spec.get("approverInputs")
        names = (
            [entry.get("name") for entry in inputs if isinstance(entry, Mapping)]
            if isinstance(inputs, list)
            else []
        )
        return {f"approverInputs.{name}": "What an approver entered." for name in names if name}

    @property
    def inputs(self) -> tuple[ApproverInput, ...]:
        """Return the parsed inputs of approvers."""
        return parse_approver_inputs(self.approverInputs)


@step(
    APPROVAL_TYPE,
    spec=ApprovalSpec,
    title="Approval",
    timeout_minutes=DAY_MINUTES,
    starter=_STARTER,
    deploys=False,
    outputs={
        "approvers": "Who approved, a list.",
        "approverInputs": "What approvers entered, by name.",
    },
)
def approval(spec: ApprovalSpec) -> Plan:
    """Wait until enough members of the groups have approved what the steps after this one would do."""
    yield unit(
        APPROVAL_UNIT,
        RequestApproval(
            message=spec.approvalMessage,
            groups=list(spec.approvers.userGroups),
            minimum=spec.approvers.minimumCount,
            without_executor=spec.approvers.disallowPipelineExecutor,
            inputs=[asdict(entry) for entry in spec.inputs],
            with_history=spec.includePipelineExecutionHistory,
        ),
    )
