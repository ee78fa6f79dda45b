"""What people ask of previews; page and API call the same functions."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from aws.caller import CallPending
from catalog.manifests.store_connectors import named_connectors
from connectors.kinds import read_any
from deployments import plan
from deployments.models import Execution, PreviewQuestion, StageExecution, StepExecution
from deployments.preview.documents import ShownPreview, shown_preview
from deployments.preview.running import OpenDoor, run_preview
from deployments.preview.whether import Outlook, Verdict
from deployments.preview_reads import Answers, open_here
from deployments.run_requests import RunRequest, checked_run, targets_of, unknown_inputs
from pipelines.definition.outlines import outlined
from pipelines.definition.step_sources import sources_of
from pipelines.definition.targets import Target
from pipelines.inputs.variables import check_inputs
from pipelines.models import Pipeline
from pipelines.operations.pipelines import read, refuse_missing
from rbac.models import Scope, User
from rbac.policy import Forbidden
from web.clock import database_now
from web.news import changed
from web.problems import Problem

# Who asks the same again so soon means the question that is under way, or its answer.
SAME_QUESTION = timedelta(seconds=60)
KEPT = timedelta(minutes=10)
Outline = list[dict[str, Any]]
# What is edited all the time never comes to an end; the next question begins anew.
LONGEST = timedelta(seconds=90)


def preview_pipeline(
    *, actor: User, pipeline: Pipeline, artifact_tag: str = "", inputs: Mapping[str, Any] | None = None
) -> ShownPreview | PreviewQuestion:
    """What a run would do; nothing is written in AWS.

    Where a delegate has to read for it, the question while it does: ask the same again. Raises what
    `run_pipeline` raises.
    """
    values = dict(inputs or {})
    asked = _asked(actor, pipeline, artifact_tag, values)
    if not any(_needs_delegates(one, pipeline.scope) for one in asked.targets):
        return _preview(asked, pipeline, open_here)
    plain = {name: value for name, value in values.items() if name not in asked.secret_inputs}
    question = _joined(actor, pipeline, artifact_tag, plain)
    return _advanced(question, asked) or question


def judged_plan(pipeline: Pipeline, inputs: Mapping[str, Any], artifact: dict[str, Any]) -> Outline:
    """The plan of a run, and of each step whether it would run, as far as these inputs tell.

    Raises `PipelineNotRunnable`.
    """
    spec = read(pipeline.yaml)
    targets = targets_of(spec, pipeline.scope)
    given, wrong = check_inputs(spec.variables, inputs, is_preview=True)
    unknown = unknown_inputs(spec, inputs) | {one["path"].removeprefix("inputs.") for one in wrong}
    execution = Execution(
        scope=pipeline.scope,
        pipeline=pipeline,
        number=pipeline.next_number,
        inputs=given.plain,
        artifact=artifact,
    )
    stages = outlined(targets)
    for position, target in enumerate(targets):
        stage = plan.planned_stage(execution, spec, target, position)
        outlook = Outlook(execution, stage, unknown)
        try:
            verdicts = {one.step.identifier: outlook.of_step(one.step) for one in _forward(stage, target)}
        except plan.CannotPlanError as cannot:
            refuse_missing(cannot.missing)
        for step in stages[position]["steps"]:
            if (verdict := verdicts.get(step["identifier"])) is not None:
                _judge(step, verdict)
    return stages


def _forward(stage: StageExecution, target: Target) -> Iterator[plan.PlannedStep]:
    planned = plan.planned_steps(stage, target.spec)
    return (one for one in planned if one.step.section == StepExecution.Section.EXECUTION)


def _judge(step: dict[str, Any], verdict: Verdict) -> None:
    step["skipped_because"], step["depends"] = verdict.skipped, verdict.depends
    if verdict.skipped:
        step["status"] = "SKIPPED"


def _needs_delegates(target: Target, scope: Scope) -> bool:
    steps = (*target.spec.steps, *target.spec.rollback_steps)
    rows = [*target.overridden.sources(), *(row for one in steps for row in sources_of(one.type, one.spec))]
    stores = named_connectors(scope, rows).values()
    used = [target.infrastructure.connector, *(one for one in stores if one is not None)]
    return any(read_any(one.kind, one.spec).is_remote for one in used)


def go_on(question: PreviewQuestion) -> None:
    """Run a preview again with the answer that has come; whoever asked sees what became of it."""
    try:
        asked = _asked(question.asked_by, question.pipeline, question.tag, question.inputs)
        _advanced(question, asked)
    except (Forbidden, Problem):
        # Something changed meanwhile; who asks again is told.
        return


def _asked(actor: User, pipeline: Pipeline, tag: str, inputs: Mapping[str, Any]) -> RunRequest:
    return checked_run(
        actor=actor, pipeline=pipeline, yaml=pipeline.yaml, artifact_tag=tag, inputs=inputs, is_preview=True
    )


def _joined(actor: User, pipeline: Pipeline, tag: str, inputs: dict[str, Any]) -> PreviewQuestion:
    """The same person's question of a moment ago, or a new one."""
    now = database_now()
    PreviewQuestion.objects.filter(asked_at__lt=now - KEPT).delete()
    what = {"pipeline": pipeline, "version": pipeline.version, "tag": tag, "asked_by": actor}
    found = PreviewQuestion.objects.filter(**what, asked_at__gt=now - SAME_QUESTION).order_by("-asked_at")
    for one in found.select_related("task", "pipeline__scope", "asked_by"):
        if one.inputs == inputs:
            return one
    return PreviewQuestion.objects.create(**what, inputs=inputs, asked_at=now)


def _advanced(question: PreviewQuestion, asked: RunRequest) -> ShownPreview | None:
    """The preview, or None while an answer is missing; the first missing one is asked for."""
    if question.task is not None or database_now() - question.asked_at > LONGEST:
        return None
    try:
        shown = _preview(asked, question.pipeline, Answers(question).open)
    except CallPending:
        question.refresh_from_db(fields=["task"])
        return None
    PreviewQuestion.objects.filter(pk=question.pk, finished_at=None).update(finished_at=database_now())
    changed("previews", question.pk)
    return shown


def _preview(asked: RunRequest, pipeline: Pipeline, open_door: OpenDoor) -> ShownPreview:
    try:
        steps = run_preview(asked, pipeline, open_door)
    except plan.CannotPlanError as cannot:
        refuse_missing(cannot.missing)
    return shown_preview(asked.artifact, steps)
