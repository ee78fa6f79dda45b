"""The region that the calls of a step go to: its own where it says one, else that of its stage."""

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
    "The region is not known before the infrastructure is provisioned: say region in the spec of step {step}."
)


def own_region(spec: Mapping[str, Any]) -> str:
    """The region that a step says itself, or nothing."""
    said = spec.get("region")
    return said if isinstance(said, str) and not has_expression(said) else ""


def known_region(stage: StageExecution, step: StepExecution) -> str:
    """As `region_for`, empty where it is not known yet."""
    return own_region(step.spec) or stage.region


def region_for(stage: StageExecution, step: StepExecution) -> str:
    """Where the calls of a step go. Raises `ConnectorUnavailable` where that is known only later."""
    if region := known_region(stage, step):
        return region
    raise ConnectorUnavailable(NOT_YET.format(step=step.identifier))
