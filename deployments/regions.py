"""Region of a step's calls: its own if set, else that of its stage."""

from collections.abc import Mapping
from typing import Any

from delegates.access.aws_access import ConnectorUnavailable
from deployments.models import StageExecution, StepExecution
from steps.expressions import has_expression

NO_CLUSTER = (
    "The cluster is not known before the infrastructure is provisioned: steps that need it belong under "
    "execution of the stage."
)
NOT_YET = (
    "The region is not known before the infrastructure is provisioned: set region in the spec of step {step}."
)


def get_step_region(spec: Mapping[str, Any]) -> str:
    """Return the region in a step's spec, or an empty text."""
    region = spec.get("region")
    return region if isinstance(region, str) and not has_expression(region) else ""


def find_call_region(stage: StageExecution, step: StepExecution) -> str:
    """Return the region of a step's calls, or an empty text if it is unknown yet."""
    return get_step_region(step.spec) or stage.region


def get_call_region(stage: StageExecution, step: StepExecution) -> str:
    """Return the region of a step's calls. Raises `ConnectorUnavailable` if it is unknown yet."""
    if region := find_call_region(stage, step):
        return region
    raise ConnectorUnavailable(NOT_YET.format(step=step.identifier))
