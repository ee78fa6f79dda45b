"""Operation that repeats an earlier deployment."""

from deployments.execution.operations import run_pipeline
from deployments.models import Execution, StageExecution
from rbac.models import User
from steps.states import Status
from web.http.problems import Conflict


def can_redeploy(deployment: StageExecution) -> bool:
    """Return whether a deployment succeeded, so that it can be repeated."""
    return deployment.execution.has_succeeded and deployment.status != Status.SKIPPED


def redeploy(*, actor: User, deployment: StageExecution) -> Execution:
    """Repeat a deployment with its manifests, inputs and image, and return the new execution.

    Raises `Conflict` where it did not succeed, and all errors of `run_pipeline`.
    """
    execution = deployment.execution
    if not can_redeploy(deployment):
        raise Conflict("You can only roll back to a successful deployment. Choose another one.")
    return run_pipeline(
        actor=actor,
        pipeline=execution.pipeline,
        artifact_tag=execution.artifact.get("tag", ""),
        replays=execution,
    )
