"""Tables of executions, approvals, freeze windows, previews and automatic upgrades of delegates."""

from deployments.models.approvals import Approval, ApprovalDecision
from deployments.models.delegate_upgrades import DelegateUpgrade, DelegateUpgradeWindow
from deployments.models.engine import Interrupt, Pulse, RollbackCheck, ServiceLock, ServiceLockClaim
from deployments.models.executions import (
    ActionRun,
    Execution,
    StageExecution,
    StepExecution,
    StepGroup,
    StoredText,
    StoredTextUse,
)
from deployments.models.freezes import FreezeWindow
from deployments.models.journal import AwsCall, AwsEvent, HiddenLogLines, LogChunk, RollbackValue
from deployments.models.previews import PreviewRequest
from deployments.models.provisions import AppliedConfiguration, StoredPlan

__all__ = [
    "ActionRun",
    "AppliedConfiguration",
    "Approval",
    "ApprovalDecision",
    "AwsCall",
    "AwsEvent",
    "DelegateUpgrade",
    "DelegateUpgradeWindow",
    "Execution",
    "FreezeWindow",
    "HiddenLogLines",
    "Interrupt",
    "LogChunk",
    "PreviewRequest",
    "Pulse",
    "RollbackCheck",
    "RollbackValue",
    "ServiceLock",
    "ServiceLockClaim",
    "StageExecution",
    "StepExecution",
    "StepGroup",
    "StoredPlan",
    "StoredText",
    "StoredTextUse",
]
