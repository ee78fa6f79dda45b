"""Operation that deploys again what an earlier execution deployed."""

from deployments.execution.operations import run_pipeline
from deployments.models import Execution, StageExecution
from rbac.models import User
from steps.states import Status
from web.http.problems import Conflict


def can_redeploy(deployment: StageExecution) -> bool:
    """Whether a deployment ended well, so that it may be deployed again."""
    execution = deployment.execution
    went_well = execution.status == Status.SUCCESS or execution.deployed_all_the_same
    return went_well and deployment.status != Status.SKIPPED


def redeploy(*, actor: User, deployment: StageExecution) -> Execution:
    """Deploy again what an execution deployed, with its manifests, inputs and image; the new execution.

    Raises `Conflict` where it did not end well, and whatever `run_pipeline` raises.
    """
    execution = deployment.execution
    if not can_redeploy(deployment):
        raise Conflict("Only a deployment that ended well can be rolled back to. Choose another one.")
    return run_pipeline(
        actor=actor,
        pipeline=execution.pipeline,
        artifact_tag=execution.artifact.get("tag", ""),
        replays=execution,
    )
