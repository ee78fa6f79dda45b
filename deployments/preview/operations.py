"""Operations on previews that page and API share."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from aws.caller import CallPending
from catalog.manifests.locations import load_named_connectors
from connectors.specs.sites import parse_connector_spec
from deployments.execution import planning
from deployments.execution.run_requests import RunRequest, list_unknown_inputs, resolve_targets, validate_run
from deployments.models import Execution, PreviewRequest, StageExecution, StepExecution
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

# Who asks the same again so soon means the question that is under way, or its answer.
REUSE_INTERVAL = timedelta(seconds=60)
PlanOutline = list[dict[str, Any]]
# What is edited all the time never comes to an end; the next question begins anew.
PREVIEW_TIMEOUT = timedelta(seconds=90)


def preview_pipeline(
    *, actor: User, pipeline: Pipeline, artifact_tag: str = "", inputs: Mapping[str, Any] | None = None
) -> PreviewDetails | PreviewRequest:
    """What a run would do; nothing is written in AWS.

    Where a delegate has to read for it, the question while it does: ask the same again. Raises what
    `run_pipeline` raises.
    """
    values = dict(inputs or {})
    asked = _validate_request(actor, pipeline, artifact_tag, values)
    if not any(_needs_delegates(one, pipeline.scope) for one in asked.targets):
        return _preview(asked, pipeline, open_in_process)
    plain = {name: value for name, value in values.items() if name not in asked.secret_inputs}
    question = _get_or_create_request(actor, pipeline, artifact_tag, plain)
    return _run_or_request(question, asked) or question


def forecast_plan(pipeline: Pipeline, inputs: Mapping[str, Any], artifact: dict[str, Any]) -> PlanOutline:
    """Return the plan of a run, and of each step whether it would run, as far as these inputs tell.

    Raises `PipelineNotRunnable`.
    """
    spec = parse_valid_pipeline(pipeline.yaml)
    targets = resolve_targets(spec, pipeline.scope)
    given, wrong = validate_inputs(spec.variables, inputs, is_preview=True)
    unknown = list_unknown_inputs(spec, inputs) | {one["path"].removeprefix("inputs.") for one in wrong}
    execution = Execution(
        scope=pipeline.scope,
        pipeline=pipeline,
        number=pipeline.next_number,
        inputs=given.plain,
        artifact=artifact,
    )
    stages = build_outline(targets)
    for position, target in enumerate(targets):
        stage = planning.plan_stage(execution, spec, target, position)
        outlook = StageForecast(execution, stage, unknown)
        try:
            verdicts = {
                one.step.identifier: outlook.of_step(one.step) for one in _plan_forward_steps(stage, target)
            }
        except planning.CannotPlanError as cannot:
            require_no_problems(cannot.missing)
        for step in stages[position]["steps"]:
            if (verdict := verdicts.get(step["identifier"])) is not None:
                _apply_forecast(step, verdict)
    return stages


def _plan_forward_steps(stage: StageExecution, target: StageTarget) -> Iterator[planning.PlannedStep]:
    planned = planning.plan_steps(stage, target.spec)
    return (one for one in planned if one.step.section == StepExecution.Section.EXECUTION)


def _apply_forecast(step: dict[str, Any], verdict: ConditionForecast) -> None:
    step["skipped_because"], step["depends"] = verdict.skipped, verdict.depends
    if verdict.skipped:
        step["status"] = "SKIPPED"


def _needs_delegates(target: StageTarget, scope: Scope) -> bool:
    steps = (*target.spec.steps, *target.spec.rollback_steps)
    rows = [
        *target.overrides.list_rows(),
        *(row for one in steps for row in list_sources(one.type, one.spec)),
    ]
    stores = load_named_connectors(scope, rows).values()
    used = [target.infrastructure.connector, *(one for one in stores if one is not None)]
    return any(parse_connector_spec(one.kind, one.spec).is_remote for one in used)


def continue_preview(question: PreviewRequest) -> None:
    """Run a preview again with the answer that has come; whoever asked sees what became of it."""
    try:
        asked = _validate_request(question.requested_by, question.pipeline, question.tag, question.inputs)
        _run_or_request(question, asked)
    except (Forbidden, Problem):
        # Something changed meanwhile; who asks again is told.
        return


def _validate_request(actor: User, pipeline: Pipeline, tag: str, inputs: Mapping[str, Any]) -> RunRequest:
    return validate_run(
        actor=actor, pipeline=pipeline, yaml=pipeline.yaml, artifact_tag=tag, inputs=inputs, is_preview=True
    )


def _get_or_create_request(
    actor: User, pipeline: Pipeline, tag: str, inputs: dict[str, Any]
) -> PreviewRequest:
    """Return the same person's question of a moment ago, or a new one."""
    now = get_database_time()
    what = {"pipeline": pipeline, "version": pipeline.version, "tag": tag, "requested_by": actor}
    found = PreviewRequest.objects.filter(**what, requested_at__gt=now - REUSE_INTERVAL).order_by(
        "-requested_at"
    )
    for one in found.select_related("task", "pipeline__scope", "requested_by"):
        if one.inputs == inputs:
            return one
    return PreviewRequest.objects.create(**what, inputs=inputs, requested_at=now)


def _run_or_request(question: PreviewRequest, asked: RunRequest) -> PreviewDetails | None:
    """Return the preview, or None while an answer is missing; the first missing one is asked for."""
    if question.task is not None or get_database_time() - question.requested_at > PREVIEW_TIMEOUT:
        return None
    try:
        shown = _preview(asked, question.pipeline, RecordedAnswers(question).open)
    except CallPending:
        question.refresh_from_db(fields=["task"])
        return None
    PreviewRequest.objects.filter(pk=question.pk, finished_at=None).update(finished_at=get_database_time())
    publish_change_on_commit("previews", question.pk)
    return shown


def _preview(asked: RunRequest, pipeline: Pipeline, open_aws_access: AwsAccessOpener) -> PreviewDetails:
    try:
        steps = run_dry_run(asked, pipeline, open_aws_access)
    except planning.CannotPlanError as cannot:
        require_no_problems(cannot.missing)
    return build_preview_details(asked.artifact, steps)
