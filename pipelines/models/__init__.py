"""Tables of pipelines and input sets."""

from pipelines.models.input_sets import InputSet
from pipelines.models.pipelines import Pipeline, PipelineVersion

__all__ = [
    "InputSet",
    "Pipeline",
    "PipelineVersion",
]
