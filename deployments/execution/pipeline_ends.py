"""Ends of executions, for triggers of other pipelines; written in the commit that sets the status."""

from deployments.execution.queries import ROLLED_BACK_OUTCOMES
from deployments.models import Execution
from pipelines.triggers.kinds.pipeline import ABORTED, FAILED, SUCCEEDED, PipelineEnd, record_pipeline_end
from steps.states import Status


def record_end(execution: Execution) -> None:
    """Tell the triggers that follow the pipeline how an execution ended."""
    record_pipeline_end(
        PipelineEnd(
            pipeline=execution.pipeline,
            execution_id=execution.pk,
            number=execution.number,
            result=_get_result(execution),
            tag=str(execution.artifact.get("tag") or ""),
            inputs=execution.inputs,
        )
    )


def _get_result(execution: Execution) -> str:
    if execution.status == Status.ABORTED:
        return ABORTED
    is_success = execution.has_succeeded and execution.outcome not in ROLLED_BACK_OUTCOMES
    return SUCCEEDED if is_success else FAILED
