"""Dry run of a pipeline's steps, in order, as far as they would go."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from aws.caller import Caller
from aws.errors import AwsError, Denied
from aws.preview import ExistsOnlyInPreview, PlannedCall, PreviewCaller, PreviewLimitReached, ReadBudget
from delegates.access.aws_access import ConnectorUnavailable, build_cache_key
from deployments.engine.step_inputs import build_expression_values
from deployments.execution import planning
from deployments.execution.planning import PlannedStep
from deployments.execution.run_requests import RunRequest
from deployments.journal.secret_values import list_stage_secrets
from deployments.models import Execution, StageExecution, StepExecution
from deployments.preview.conditions import ConditionForecast, StageForecast
from deployments.preview.step_context import (
    PreviewedStageData,
    PreviewedStepData,
    PreviewStepContext,
    WorkPlanned,
)
from guards.limits import PREVIEW_CALLS, PREVIEW_SECONDS
from guards.masks import SecretMask
from pipelines.definition.deferred_expressions import resolve_spec
from pipelines.models import Pipeline
from steps.actions.base import Action, ActionFailed
from steps.expressions import BadExpressionError
from steps.kinds.registry import BadStepError, get_step_kind


class KnownOnlyInRun(Exception):
    """What a step names is known to a run alone."""


NOT_PROVISIONED = (
    "Where this deploys is known once the infrastructure is provisioned, so a preview does not say what this "
    "step would do."
)


def is_infrastructure_unknown(step: StepExecution) -> bool:
    """Return whether a step begins where nobody can look yet: behind a provisioner that has not run."""
    stage = step.stage
    return not stage.has_location and step.position >= stage.provisioner_step_count


def resolve_actions(
    stage_data: PreviewedStageData, planned: PlannedStep, outputs: Mapping[str, Any]
) -> list[Action]:
    """Return the actions of a step with what it names filled in. Raises `KnownOnlyInRun` with a sentence."""
    step = planned.step
    if is_infrastructure_unknown(step):
        raise KnownOnlyInRun(NOT_PROVISIONED)
    if step.unresolved_spec is None:
        return [action for _, action in planned.actions]
    kind = get_step_kind(step.type)
    steps = {**outputs, **stage_data.outputs()}
    values = {
        **build_expression_values(stage_data.execution, stage_data.stage),
        "steps": steps,
        "execution": {"steps": steps, "id": str(stage_data.execution.pk)},
    }
    try:
        spec = {**step.spec, **resolve_spec(kind, step.unresolved_spec, values)}
        return [action for unit in kind.build_units(spec) for action in unit.actions]
    except (BadExpressionError, BadStepError) as unknown:
        raise KnownOnlyInRun(
            f"{unknown} A preview cannot know it, so it does not say what this step would do."
        ) from unknown


AwsAccessOpener = Callable[[StepExecution], Caller]
"""The way to AWS of a step. Raises `ConnectorUnavailable`."""


@dataclass(frozen=True)
class PreviewFailure:
    """Why a run would come no further than this step."""

    code: str
    message: str
    action: str = ""
    """The IAM action that is missing, where that is why."""


@dataclass
class PreviewedStep:
    """What one step would do. `failure` says why it would end early; one that is not reached says so too."""

    step_data: PreviewedStepData
    caller: PreviewCaller
    calls: list[PlannedCall] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failure: PreviewFailure | None = None
    is_reached: bool = True
    verdict: ConditionForecast = ConditionForecast()

    @property
    def step(self) -> StepExecution:
        return self.step_data.step

    @property
    def writes(self) -> list[PlannedCall]:
        return [call for call in self.calls if call.is_write]


def run_dry_run(
    asked: RunRequest, pipeline: Pipeline, open_aws_access: AwsAccessOpener
) -> list[PreviewedStep]:
    """Return the steps of a run that is not started, in order; after one that would fail none is reached.

    Raises `CannotPlanError` as a run would, `CallPending` where a delegate has still to answer.
    """
    preview = _DryRun(asked, pipeline, open_aws_access)
    return list(preview.steps())


class _DryRun:
    """One preview under way; stages with the same AWS access share planned resources."""

    def __init__(self, asked: RunRequest, pipeline: Pipeline, open_aws_access: AwsAccessOpener) -> None:
        self._asked = asked
        self._budget = ReadBudget(calls=PREVIEW_CALLS, seconds=float(PREVIEW_SECONDS))
        self._callers: dict[tuple[str, str], PreviewCaller] = {}
        self._open_aws_access = open_aws_access
        self._outputs: dict[str, Any] = {}
        self._is_over = False
        self._execution = Execution(
            scope=pipeline.scope,
            pipeline=pipeline,
            number=pipeline.next_number,
            yaml=pipeline.yaml,
            inputs=asked.inputs,
            secret_inputs=json.dumps(asked.secret_inputs) if asked.secret_inputs else "",
            artifact=asked.artifact,
        )

    def steps(self) -> Iterator[PreviewedStep]:
        for position, target in enumerate(self._asked.targets):
            stage = planning.plan_stage(self._execution, self._asked.spec, target, position)
            stage_data = PreviewedStageData(
                self._execution, stage, self._caller(stage), SecretMask(list_stage_secrets(stage))
            )
            outlook = StageForecast(self._execution, stage, self._asked.unknown)
            for planned in planning.plan_steps(stage, target.spec):
                if planned.step.section == StepExecution.Section.EXECUTION:
                    yield self._step(stage_data, planned, outlook.of_step(planned.step))
            self._outputs |= stage_data.outputs()

    def _caller(self, stage: StageExecution) -> PreviewCaller:
        key = (build_cache_key(stage.connector), stage.region)
        if key not in self._callers:
            self._callers[key] = PreviewCaller(_DeferredAwsAccess(self._open_aws_access), self._budget)
        return self._callers[key]

    def _step(
        self, stage_data: PreviewedStageData, planned: planning.PlannedStep, verdict: ConditionForecast
    ) -> PreviewedStep:
        step_data = PreviewedStepData(planned.step)
        stage_data.steps.append(step_data)
        step = PreviewedStep(step_data, stage_data.caller, is_reached=not self._is_over, verdict=verdict)
        if self._is_over or is_skipped(step):
            self._is_over = self._is_over or step.failure is not None
            return step
        cast("_DeferredAwsAccess", stage_data.caller.caller).step = planned.step
        try:
            run_actions(stage_data, step, resolve_actions(stage_data, planned, self._outputs), self._outputs)
        except KnownOnlyInRun as unknown:
            step.warnings.append(str(unknown))
        self._is_over = step.failure is not None
        return step


def is_skipped(step: PreviewedStep) -> bool:
    """Whether a step would do nothing: it is skipped, or its condition has no answer, which fails it."""
    if step.verdict.wrong:
        step.failure = PreviewFailure("UNCLEAR_CONDITION", step.verdict.wrong)
    return bool(step.verdict.skipped or step.verdict.wrong)


def run_actions(
    stage_data: PreviewedStageData, step: PreviewedStep, actions: Iterable[Action], outputs: Mapping[str, Any]
) -> None:
    """Run the actions of one step as far as they would go; what came of it is written into `step`."""
    first = len(stage_data.caller.calls)
    try:
        for number, action in enumerate(actions, start=1):
            _run_action(action, PreviewStepContext(stage_data, step.step_data, number, outputs), step)
    except ActionFailed as failed:
        step.failure = PreviewFailure(failed.code, stage_data.mask.mask_text(failed.message))
    except AwsError as error:
        missing = error.action if isinstance(error, Denied) else ""
        step.failure = PreviewFailure(
            f"AWS_{error.code}", stage_data.mask.mask_text(error.display_message), missing
        )
    except (ConnectorUnavailable, PreviewLimitReached) as stopped:
        step.failure = PreviewFailure("PREVIEW_STOPPED", str(stopped))
    step.calls = stage_data.caller.calls[first:]


def _run_action(action: Action, context: PreviewStepContext, step: PreviewedStep) -> None:
    try:
        action.start(context)
    except WorkPlanned:
        return
    try:
        # What is not done yet is taken as done: a preview waits for nothing.
        action.is_done(context)
    except ActionFailed as failed:
        step.warnings.append(f"{action.title}: {failed.message}")
    except ExistsOnlyInPreview:
        return


@dataclass
class _DeferredAwsAccess:
    """AWS access opened with each call, so that an unavailable connector is part of the answer."""

    open_aws_access: AwsAccessOpener
    step: StepExecution | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert self.step is not None  # noqa: S101 - a step is under way when it calls
        return self.open_aws_access(self.step).call(service, operation, params)
