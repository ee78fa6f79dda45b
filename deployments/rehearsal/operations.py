"""Operations that rehearse a run or a rollback, shared by pages and API."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from connectors.required_access import require_access
from connectors.specs.sites import parse_connector_spec
from deployments.execution.planning.rows import CannotPlanError
from deployments.execution.planning.run_requests import RunRequest
from deployments.execution.policy_checks import find_preview_violations
from deployments.execution.undo_plan import build_rollback_plan
from deployments.execution_access import needs_of_execution
from deployments.models import Execution, PreviewRequest
from deployments.preview.delegate_reads import open_in_process
from deployments.preview.operations import (
    continue_preview,
    get_or_create_request,
    needs_delegates,
    read_or_request,
    reads_files_through_delegates,
    validate_request,
    validate_stored_request,
)
from deployments.rehearsal.rehearsals import BEHAVIORS, RehearsalReads, read_for_rehearsal, rehearse
from deployments.rehearsal.results import RehearsalResult
from deployments.rehearsal.rollbacks import rehearse_rollback_of
from deployments.rehearsal.sandbox_access import is_sandbox_installed
from pipelines.models import Pipeline
from pipelines.operations.pipelines import require_no_problems
from rbac.models import User
from rbac.policy import Forbidden, require
from steps.states import Status
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict, Problem

NO_SANDBOX = (
    "Rehearsals need the sandbox, which this installation does not have. "
    "Install the packages of the extra sandbox: pip install --require-hashes -r requirements.lock"
)
FILES_THROUGH_DELEGATES = (
    "Delegates fetch manifests or tags of this run, which a rehearsal does not wait for. "
    "Their connectors must connect from Slipway."
)
UNDO_THROUGH_DELEGATES = (
    "The rehearsal of a rollback cannot read through delegates. Its connectors must connect from Slipway."
)
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
) -> RehearsalResult | PreviewRequest:
    """Rehearse a run in a private sandbox, with a behavior of `BEHAVIORS` for the tasks of its image.

    If delegates have to read the cluster, returns the pending request; repeat the call to get the result.
    Raises `BadInput` for another behavior, `Conflict` if this installation, the manifests or another
    rehearsal under way does not allow it, and the errors of `run_pipeline`.
    """
    _check_behavior(behavior)
    values = dict(inputs or {})
    request = validate_request(
        actor, pipeline, artifact_tag, values, force_new_deployment=force_new_deployment
    )
    require_sandbox()
    try:
        reads = _read(actor, pipeline, artifact_tag, values, request)
        if isinstance(reads, PreviewRequest):
            return reads
        with _run_alone():
            result = rehearse(request, pipeline, behavior, reads)
    except CannotPlanError as cannot:
        require_no_problems(cannot.missing)
        raise
    violations = find_preview_violations(actor, pipeline, request)
    result.preview = replace(reads.preview, policy_violations=tuple(violations))
    return result


def _read(
    actor: User, pipeline: Pipeline, tag: str, inputs: Mapping[str, Any], request: RunRequest
) -> RehearsalReads | PreviewRequest:
    """Return the reads of a rehearsal, or the request whose delegates still read.

    Raises `CannotPlanError`, and `Conflict` if delegates would fetch manifests, too.
    """
    if not needs_delegates(request.targets, pipeline.scope):
        return read_for_rehearsal(request, pipeline, open_in_process, get_database_time())
    if any(reads_files_through_delegates(target, pipeline.scope) for target in request.targets):
        raise Conflict(FILES_THROUGH_DELEGATES)
    pending = get_or_create_request(actor, pipeline, tag, inputs, request, reads_cluster=True)
    return read_or_request(pending, partial(read_for_rehearsal, request, pipeline)) or pending


def continue_reads(request: PreviewRequest) -> None:
    """Continue a preview, or the reads of a rehearsal, with its recorded answers; publish the result."""
    if not request.reads_cluster:
        continue_preview(request)
        return
    try:
        run_request = validate_stored_request(request)
        read_or_request(request, partial(read_for_rehearsal, run_request, request.pipeline))
    except (CannotPlanError, Forbidden, Problem):
        # The pipeline or a permission changed meanwhile; the next request reports it.
        return


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
        raise Conflict(UNDO_THROUGH_DELEGATES)
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
