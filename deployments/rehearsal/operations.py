"""Operations that rehearse a run or a rollback, shared by pages and API."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from connectors.required_access import require_access
from connectors.specs.sites import parse_connector_spec
from deployments.execution.planning.rows import CannotPlanError
from deployments.execution.policy_checks import find_preview_violations
from deployments.execution.undo_plan import build_rollback_plan
from deployments.execution_access import needs_of_execution
from deployments.models import Execution
from deployments.preview.operations import needs_delegates, validate_request
from deployments.rehearsal.rehearsals import BEHAVIORS, rehearse
from deployments.rehearsal.results import RehearsalResult
from deployments.rehearsal.rollbacks import rehearse_rollback_of
from deployments.rehearsal.sandbox_access import is_sandbox_installed
from pipelines.models import Pipeline
from pipelines.operations.pipelines import require_no_problems
from rbac.models import User
from rbac.policy import require
from steps.states import Status
from web.http.problems import BadInput, Conflict

NO_SANDBOX = (
    "Rehearsals need the sandbox, which this installation does not have. "
    "Install the packages of the extra sandbox: pip install --require-hashes -r requirements.lock"
)
THROUGH_DELEGATES = "A rehearsal cannot read through delegates. Its connectors must connect from Slipway."
# Each starts a process of about 150 MiB, so a web process has one at a time.
_is_running = Lock()


def rehearse_pipeline(
    *,
    actor: User,
    pipeline: Pipeline,
    behavior: str,
    artifact_tag: str = "",
    inputs: Mapping[str, Any] | None = None,
    force_new_deployment: bool | None = None,
) -> RehearsalResult:
    """Rehearse a run in a private sandbox, with a behavior of `BEHAVIORS` for the tasks of its image.

    Raises `BadInput` for another behavior, `Conflict` if this installation, this connector or another
    rehearsal under way does not allow it, and the errors of `run_pipeline`.
    """
    _check_behavior(behavior)
    request = validate_request(actor, pipeline, artifact_tag, dict(inputs or {}))
    require_sandbox()
    if needs_delegates(request.targets, pipeline.scope):
        raise Conflict(THROUGH_DELEGATES)
    with _run_alone():
        try:
            result = rehearse(request, pipeline, behavior, force_new_deployment=force_new_deployment)
        except CannotPlanError as cannot:
            require_no_problems(cannot.missing)
    if result.preview is not None:
        violations = find_preview_violations(actor, pipeline, request)
        result.preview = replace(result.preview, policy_violations=tuple(violations))
    return result


def rehearse_rollback(*, actor: User, execution: Execution, behavior: str) -> RehearsalResult:
    """Rehearse the rollback of an execution that ended or waits for a decision, in a private sandbox.

    The images that it restores get a behavior of `BEHAVIORS`. Raises `BadInput` for another behavior,
    `Conflict` if there is nothing to undo, or if a rollback would start a new execution instead.
    """
    require(actor, "core_pipeline_execute", execution)
    require_access(actor, needs_of_execution(execution, rolling_back=True))
    _check_behavior(behavior)
    if not (execution.is_over or execution.status == Status.INTERVENTION_WAITING):
        raise Conflict(
            f"{execution} still changes AWS ({execution.status}). Rehearse its rollback once it ended."
        )
    if execution.details_deleted_at:
        raise Conflict("The AWS calls of this execution were deleted, so its rollback cannot be rehearsed.")
    plan = build_rollback_plan(execution)
    if not plan["changes"]:
        raise Conflict(f"There is no rollback to rehearse. {plan['note']}")
    require_sandbox()
    connectors = {stage.connector for stage in execution.stages.select_related("connector")}
    if any(parse_connector_spec(item.kind, item.spec).is_remote for item in connectors):
        raise Conflict(THROUGH_DELEGATES)
    with _run_alone():
        return rehearse_rollback_of(execution, behavior)


def _check_behavior(behavior: str) -> None:
    if behavior not in BEHAVIORS:
        message = f"use one of {', '.join(BEHAVIORS)}"
        raise BadInput("This behavior does not exist.", errors=[{"path": "behavior", "message": message}])


def require_sandbox() -> None:
    """Raise `Conflict` if this installation has no sandbox."""
    if not is_sandbox_installed():
        raise Conflict(NO_SANDBOX)


@contextmanager
def _run_alone() -> Iterator[None]:
    if not _is_running.acquire(blocking=False):
        raise Conflict("Another rehearsal is running. Try again in a minute.")
    try:
        yield
    finally:
        _is_running.release()
