"""Tables of pipelines and input sets."""

from pipelines.models.pipelines import InputSet, Pipeline, PipelineVersion

__all__ = [
    "InputSet",
    "Pipeline",
    "PipelineVersion",
]
