"""Operation that repeats an earlier deployment."""

from catalog.models import Service
from deployments.execution.operations import run_pipeline
from deployments.models import Execution, StageExecution
from inventory.dashboards.rollback_plans import can_redeploy, find_live_services, get_live_task_definition
from rbac.models import User
from web.http.problems import Conflict


def redeploy(
    *, actor: User, service: Service, deployment: StageExecution, running: str | None = None
) -> Execution:
    """Repeat a deployment with its manifests, inputs and image, and return the new execution.

    `running` is the task definition that the actor compared it with; empty if none was known.

    Raises `Conflict` where it did not succeed or another task definition runs by now, and all errors of
    `run_pipeline`.
    """
    execution = deployment.execution
    if not can_redeploy(deployment):
        raise Conflict("You can only roll back to a successful deployment. Choose another one.")
    if running is not None:
        _require_running(actor, service, deployment, running)
    return run_pipeline(
        actor=actor,
        pipeline=execution.pipeline,
        artifact_tag=execution.artifact.get("tag", ""),
        replays=execution,
    )


def _require_running(actor: User, service: Service, deployment: StageExecution, running: str) -> None:
    current = get_live_task_definition(find_live_services(actor, service, deployment))
    if current != running:
        raise Conflict(
            "Another task definition runs than the one that was compared: "
            f"{current or 'it is not known which'}. Check the differences again, and confirm."
        )
