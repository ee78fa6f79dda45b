"""The step that waits for people."""

from dataclasses import asdict, dataclass

from deployments.actions.approval import AskForApproval
from deployments.actions.approval_settings import ApproverInputs, Approvers
from deployments.steps.base import Plan, step, unit

# The type keeps the name that pipelines of this kind are written with (REQUIREMENTS 6).
APPROVAL = "HarnessApproval"
DAY_MINUTES = 24 * 60


@dataclass(frozen=True)
class ApprovalSpec:
    """What approvers read, who they are, and what they fill in."""

    approvers: Approvers
    approvalMessage: str = ""
    includePipelineExecutionHistory: bool = False
    approverInputs: ApproverInputs = ApproverInputs()


@step(APPROVAL, spec=ApprovalSpec, title="Approval", timeout_minutes=DAY_MINUTES)
def approval(spec: ApprovalSpec) -> Plan:
    """Wait until enough members of the groups have approved what the steps after this one would do."""
    yield unit(
        "Approval",
        AskForApproval(
            message=spec.approvalMessage,
            groups=list(spec.approvers.userGroups),
            minimum=spec.approvers.minimumCount,
            without_executor=spec.approvers.disallowPipelineExecutor,
            inputs=[asdict(one) for one in spec.approverInputs.listed],
            with_history=spec.includePipelineExecutionHistory,
        ),
    )
