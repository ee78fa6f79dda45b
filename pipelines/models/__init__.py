"""Tables of pipelines, input sets and triggers."""

from pipelines.models.pipelines import InputSet, Pipeline, PipelineVersion
from pipelines.models.triggers import Trigger, TriggerFiring, TriggerWatch

__all__ = [
    "InputSet",
    "Pipeline",
    "PipelineVersion",
    "Trigger",
    "TriggerFiring",
    "TriggerWatch",
]
