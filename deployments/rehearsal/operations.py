"""Operation that rehearses a run, shared by pages and API."""

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

from deployments.execution.planning.rows import CannotPlanError
from deployments.execution.policy_checks import find_preview_violations
from deployments.preview.operations import needs_delegates, validate_request
from deployments.rehearsal.rehearsals import BEHAVIORS, RehearsalResult, rehearse
from deployments.rehearsal.sandbox_access import is_sandbox_installed
from pipelines.models import Pipeline
from pipelines.operations.pipelines import require_no_problems
from rbac.models import User
from web.http.problems import BadInput, Conflict

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
    if behavior not in BEHAVIORS:
        message = f"use one of {', '.join(BEHAVIORS)}"
        raise BadInput("This behavior does not exist.", errors=[{"path": "behavior", "message": message}])
    request = validate_request(actor, pipeline, artifact_tag, dict(inputs or {}))
    if not is_sandbox_installed():
        raise Conflict("Rehearsals need the sandbox, which this installation does not have.")
    if needs_delegates(request.targets, pipeline.scope):
        raise Conflict("A rehearsal cannot read through delegates. Its connectors must connect from Slipway.")
    if not _is_running.acquire(blocking=False):
        raise Conflict("Another rehearsal is running. Try again in a minute.")
    try:
        result = rehearse(request, pipeline, behavior, force_new_deployment=force_new_deployment)
    except CannotPlanError as cannot:
        require_no_problems(cannot.missing)
    finally:
        _is_running.release()
    if result.preview is not None:
        violations = find_preview_violations(actor, pipeline, request)
        result.preview = replace(result.preview, policy_violations=tuple(violations))
    return result
