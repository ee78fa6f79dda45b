"""What people ask of previews; page and API call the same functions."""

from collections.abc import Mapping
from typing import Any

from aws.caller import Caller
from delegates.doors import call_here
from deployments import plan
from deployments.authoring import refuse_missing
from deployments.models import Pipeline, StageExecution
from deployments.preview.documents import ShownPreview, shown_step
from deployments.preview.running import run_preview
from deployments.run_requests import checked_run
from rbac.models import User


def preview_pipeline(
    *, actor: User, pipeline: Pipeline, artifact_tag: str = "", inputs: Mapping[str, Any] | None = None
) -> ShownPreview:
    """What a run would do; nothing is written, neither here nor in AWS.

    Raises what `run_pipeline` raises.
    """
    asked = checked_run(
        actor=actor, pipeline=pipeline, yaml=pipeline.yaml, artifact_tag=artifact_tag, inputs=inputs or {}
    )
    try:
        steps = run_preview(asked, pipeline, _door)
    except plan.CannotPlanError as cannot:
        refuse_missing(cannot.missing)
    return ShownPreview(asked.artifact, tuple(shown_step(step) for step in steps))


def _door(stage: StageExecution) -> Caller:
    return call_here(stage.connector, stage.region)
