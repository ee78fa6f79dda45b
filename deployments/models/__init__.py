"""The tables of the deployments app."""

from deployments.models.approvals import Approval, ApprovalDecision
from deployments.models.executions import ActionRun, Execution, StageExecution, StepExecution, StepGroup
from deployments.models.freezes import FreezeWindow
from deployments.models.input_sets import InputSet
from deployments.models.interventions import CheckedItem, Interrupt, Slot, SlotClaim
from deployments.models.journal import AwsEvent, Call, LogChunk, Memory
from deployments.models.kept import KeptText, KeptTextUse
from deployments.models.pipelines import Pipeline, PipelineVersion
from deployments.models.places import Environment, Infrastructure, ServiceOverride
from deployments.models.previews import PreviewQuestion
from deployments.models.provisions import AppliedConfiguration, KeptPlan
from deployments.models.pulse import Pulse
from deployments.models.services import Artifact, Manifest, Service

__all__ = [
    "ActionRun",
    "AppliedConfiguration",
    "Approval",
    "ApprovalDecision",
    "Artifact",
    "AwsEvent",
    "Call",
    "CheckedItem",
    "Environment",
    "Execution",
    "FreezeWindow",
    "Infrastructure",
    "InputSet",
    "Interrupt",
    "KeptPlan",
    "KeptText",
    "KeptTextUse",
    "LogChunk",
    "Manifest",
    "Memory",
    "Pipeline",
    "PipelineVersion",
    "PreviewQuestion",
    "Pulse",
    "Service",
    "ServiceOverride",
    "Slot",
    "SlotClaim",
    "StageExecution",
    "StepExecution",
    "StepGroup",
]
