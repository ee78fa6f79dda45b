"""Operations on previews, shared by pages and API."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.db.models import Q

from aws.caller import CallPending
from catalog.manifests.locations import load_named_connectors
from connectors.models import Connector
from connectors.specs.sites import parse_connector_spec
from deployments.execution.planning.rows import CannotPlanError, PlannedStep, plan_stage, plan_steps
from deployments.execution.planning.run_requests import (
    RunRequest,
    list_unknown_inputs,
    validate_run,
)
from deployments.execution.policy_checks import find_preview_violations
from deployments.models import Execution, PreviewRequest, StageExecution, StepExecution
from deployments.models.previews import FORCE_KEY
from deployments.preview.conditions import ConditionForecast, StageForecast
from deployments.preview.delegate_reads import RecordedAnswers, open_in_process
from deployments.preview.documents import PreviewDetails, build_preview_details
from deployments.preview.dry_run import AwsAccessOpener, run_dry_run
from pipelines.definition.execution_outlines import build_outline
from pipelines.definition.stage_targets import StageTarget
from pipelines.definition.step_manifest_sources import list_sources
from pipelines.inputs.variables import validate_inputs
from pipelines.models import Pipeline
from pipelines.operations.pipelines import parse_valid_pipeline, require_no_problems
from rbac.models import Scope, User
from rbac.policy import Forbidden
from web.clock import get_database_time
from web.http.problems import Problem
from web.live import publish_change_on_commit

# Time after its end in which the same request returns the existing preview.
REUSE_INTERVAL = timedelta(seconds=60)
PlanOutline = list[dict[str, Any]]
# Longest duration of a preview; the next request starts a new one.
PREVIEW_TIMEOUT = timedelta(seconds=90)


def preview_pipeline(
    *,
    actor: User,
    pipeline: Pipeline,
    artifact_tag: str = "",
    inputs: Mapping[str, Any] | None = None,
    force_new_deployment: bool | None = None,
) -> PreviewDetails | PreviewRequest:
    """Return the preview of a run without writes in AWS.

    If delegates have to read, returns the pending request; repeat the call to get the result. Raises the
    errors of `run_pipeline`.
    """
    values = dict(inputs or {})
    run_request = validate_request(
        actor, pipeline, artifact_tag, values, force_new_deployment=force_new_deployment
    )
    if not needs_delegates(run_request.targets, pipeline.scope):
        return _preview(actor, run_request, pipeline, open_in_process, get_database_time())
    preview_request = get_or_create_request(actor, pipeline, artifact_tag, values, run_request)
    return read_or_request(preview_request, _prepare_preview(preview_request, run_request)) or preview_request


def forecast_plan(
    pipeline: Pipeline, targets: list[StageTarget], inputs: Mapping[str, Any], artifact: dict[str, Any]
) -> PlanOutline:
    """Return the plan of a run with a forecast for each step, according to these inputs.

    Raises `PipelineNotRunnable`.
    """
    spec = parse_valid_pipeline(pipeline.yaml)
    validated, problems = validate_inputs(spec.variables, inputs, is_preview=True)
    unknown = list_unknown_inputs(spec, inputs) | {item["path"].removeprefix("inputs.") for item in problems}
    execution = Execution(
        scope=pipeline.scope,
        pipeline=pipeline,
        number=pipeline.next_number,
        inputs=validated.plain,
        artifact=artifact,
    )
    stages = build_outline(targets)
    for position, target in enumerate(targets):
        stage = plan_stage(execution, spec, target, position)
        forecast = StageForecast(execution, stage, unknown)
        try:
            verdicts = {
                item.step.identifier: forecast.forecast_step(item.step)
                for item in _plan_forward_steps(stage, target)
            }
        except CannotPlanError as cannot:
            require_no_problems(cannot.missing)
        for step in stages[position]["steps"]:
            if (verdict := verdicts.get(step["identifier"])) is not None:
                _apply_forecast(step, verdict)
    return stages


def _plan_forward_steps(stage: StageExecution, target: StageTarget) -> Iterator[PlannedStep]:
    planned = plan_steps(stage, target.spec)
    return (
        planned_step
        for planned_step in planned
        if planned_step.step.section == StepExecution.Section.EXECUTION
    )


def _apply_forecast(step: dict[str, Any], verdict: ConditionForecast) -> None:
    step["skipped_because"], step["depends"] = verdict.skipped, verdict.run_conditions
    if verdict.skipped:
        step["status"] = "SKIPPED"


def needs_delegates(targets: Iterable[StageTarget], scope: Scope) -> bool:
    """Return whether a preview of these targets reads through delegates."""
    return any(_needs_delegates(target, scope) for target in targets)


def _needs_delegates(target: StageTarget, scope: Scope) -> bool:
    return _is_remote(target.infrastructure.connector) or reads_files_through_delegates(target, scope)


def reads_files_through_delegates(target: StageTarget, scope: Scope) -> bool:
    """Return whether a delegate fetches manifests or tags of a target."""
    steps = (*target.spec.steps, *target.spec.rollback_steps)
    rows = [
        *target.overrides.list_rows(),
        *(row for item in steps for row in list_sources(item.type, item.spec)),
    ]
    stores = load_named_connectors(scope, rows).values()
    return any(_is_remote(item) for item in stores if item is not None)


def _is_remote(connector: Connector) -> bool:
    return parse_connector_spec(connector.kind, connector.spec).is_remote


def continue_preview(request: PreviewRequest) -> None:
    """Run a preview again with its recorded answers, and publish the result."""
    try:
        run_request = validate_stored_request(request)
        read_or_request(request, _prepare_preview(request, run_request))
    except (Forbidden, Problem):
        # The pipeline or a permission changed meanwhile; the next request reports it.
        return


def validate_request(
    actor: User,
    pipeline: Pipeline,
    tag: str,
    inputs: Mapping[str, Any],
    *,
    force_new_deployment: bool | None = None,
) -> RunRequest:
    """Return the validated run of a preview, which needs no secrets. Raises the errors of `run_pipeline`."""
    run_request = validate_run(
        actor=actor, pipeline=pipeline, yaml=pipeline.yaml, artifact_tag=tag, inputs=inputs, is_preview=True
    )
    return replace(run_request, force_new_deployment=force_new_deployment)


def validate_stored_request(request: PreviewRequest) -> RunRequest:
    """Return the validated run of a stored request. Raises the errors of `run_pipeline`."""
    return validate_request(
        request.requested_by,
        request.pipeline,
        request.tag,
        request.variables,
        force_new_deployment=request.force_new_deployment,
    )


def get_or_create_request(
    actor: User,
    pipeline: Pipeline,
    tag: str,
    inputs: Mapping[str, Any],
    run_request: RunRequest,
    *,
    reads_cluster: bool = False,
) -> PreviewRequest:
    """Return the person's recent request with the same inputs, or a new one; secret inputs are not stored."""
    plain = {name: value for name, value in inputs.items() if name not in run_request.secret_inputs}
    if run_request.force_new_deployment is not None:
        plain[FORCE_KEY] = run_request.force_new_deployment
    now = get_database_time()
    columns = {
        "pipeline": pipeline,
        "version": pipeline.version,
        "tag": tag,
        "reads_cluster": reads_cluster,
        "requested_by": actor,
    }
    is_recent = Q(finished_at__gt=now - REUSE_INTERVAL)
    is_under_way = Q(finished_at=None, requested_at__gt=now - PREVIEW_TIMEOUT)
    requests = PreviewRequest.objects.filter(is_recent | is_under_way, **columns).order_by("-requested_at")
    for request in requests.select_related("task", "pipeline__scope", "requested_by"):
        if request.inputs == plain:
            return request
    return PreviewRequest.objects.create(**columns, inputs=plain, requested_at=now)


T = TypeVar("T")


def read_or_request(request: PreviewRequest, read: Callable[[AwsAccessOpener, datetime], T]) -> T | None:
    """Return what `read` returns, or None after a delegate task for the first missing answer.

    `read` takes the AWS access and the time of the request. A finished request without an answer to its
    reads, such as after a change of the infrastructure, starts again.
    """
    is_late = request.finished_at is None and get_database_time() - request.requested_at > PREVIEW_TIMEOUT
    if request.task is not None or is_late:
        return None
    try:
        result = read(RecordedAnswers(request).open, request.requested_at)
    except CallPending:
        if request.finished_at is not None:
            _restart(request)
            return read_or_request(request, read)
        request.refresh_from_db(fields=["task"])
        return None
    PreviewRequest.objects.filter(pk=request.pk, finished_at=None).update(finished_at=get_database_time())
    publish_change_on_commit("previews", request.pk)
    return result


def _restart(request: PreviewRequest) -> None:
    """Discard the answers of a finished request, unless a concurrent request has done so."""
    finished = PreviewRequest.objects.filter(pk=request.pk, finished_at=request.finished_at)
    finished.update(answers="[]", finished_at=None, requested_at=get_database_time())
    request.refresh_from_db(fields=["answers", "task", "finished_at", "requested_at"])


def _prepare_preview(
    request: PreviewRequest, run_request: RunRequest
) -> Callable[[AwsAccessOpener, datetime], PreviewDetails]:
    return partial(_preview, request.requested_by, run_request, request.pipeline)


def _preview(
    actor: User,
    run_request: RunRequest,
    pipeline: Pipeline,
    open_aws_access: AwsAccessOpener,
    started_at: datetime,
) -> PreviewDetails:
    try:
        steps = run_dry_run(run_request, pipeline, open_aws_access, started_at)
    except CannotPlanError as cannot:
        require_no_problems(cannot.missing)
    details = build_preview_details(run_request.artifact, steps)
    violations = find_preview_violations(actor, pipeline, run_request)
    return replace(details, policy_violations=tuple(violations))
