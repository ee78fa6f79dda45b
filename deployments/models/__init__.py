"""The tables of the deployments app."""

from deployments.models.approvals import Approval, ApprovalDecision
from deployments.models.executions import ActionRun, Execution, StageExecution, StepExecution, StepGroup
from deployments.models.freezes import FreezeWindow
from deployments.models.interventions import CheckedItem, Interrupt, Slot, SlotClaim
from deployments.models.journal import AwsEvent, Call, LogChunk, Memory
from deployments.models.kept import KeptText, KeptTextUse
from deployments.models.previews import PreviewQuestion
from deployments.models.provisions import AppliedConfiguration, KeptPlan
from deployments.models.pulse import Pulse

__all__ = [
    "ActionRun",
    "AppliedConfiguration",
    "Approval",
    "ApprovalDecision",
    "AwsEvent",
    "Call",
    "CheckedItem",
    "Execution",
    "FreezeWindow",
    "Interrupt",
    "KeptPlan",
    "KeptText",
    "KeptTextUse",
    "LogChunk",
    "Memory",
    "PreviewQuestion",
    "Pulse",
    "Slot",
    "SlotClaim",
    "StageExecution",
    "StepExecution",
    "StepGroup",
]
