"""Dry run of a pipeline's steps, in order, up to the first failure."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from aws.caller import Caller
from aws.errors import AwsError, Denied
from aws.preview import ExistsOnlyInPreview, PlannedCall, PreviewCaller, PreviewLimitReached, ReadBudget
from delegates.access.aws_access import ConnectorUnavailable, build_cache_key
from deployments.engine.steps.inputs import build_expression_values
from deployments.execution.planning.rows import PlannedStep, plan_stage, plan_steps
from deployments.execution.planning.run_requests import RunRequest
from deployments.journal.secret_values import build_stage_mask
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
    """Value in a step that only a run can determine."""


NOT_PROVISIONED = (
    "Where this deploys is known once the infrastructure is provisioned, so a preview does not say what this "
    "step would do."
)


def is_infrastructure_unknown(step: StepExecution) -> bool:
    """Return whether a step deploys to infrastructure that is not provisioned yet."""
    stage = step.stage
    return not stage.has_location and step.position >= stage.provisioner_step_count


def resolve_actions(
    stage_data: PreviewedStageData, planned: PlannedStep, outputs: Mapping[str, Any]
) -> list[Action]:
    """Return the actions of a step with resolved values. Raises `KnownOnlyInRun` with a sentence."""
    step = planned.step
    if is_infrastructure_unknown(step):
        raise KnownOnlyInRun(NOT_PROVISIONED)
    if step.unresolved_spec is None:
        return [action for _, action in planned.actions]
    kind = get_step_kind(step.type)
    steps = {**outputs, **stage_data.get_step_outputs()}
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
"""Function that opens the AWS access of a step. Raises `ConnectorUnavailable`."""


@dataclass(frozen=True)
class PreviewFailure:
    """Failure that would end a run at this step."""

    code: str
    message: str
    action: str = ""
    """Missing IAM action, if that is the cause."""


@dataclass
class PreviewedStep:
    """Preview of one step, with its `failure`; `is_reached` is False after a failed step."""

    step_data: PreviewedStepData
    caller: PreviewCaller
    mask: SecretMask
    """Mask of the secrets of its stage."""
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
    request: RunRequest, pipeline: Pipeline, open_aws_access: AwsAccessOpener, started_at: datetime
) -> list[PreviewedStep]:
    """Return the steps of an unstarted run, in order; none is reached after a failed one.

    `started_at` is the time of all its steps.

    Raises `CannotPlanError` like a run, `CallPending` if a delegate has not answered yet.
    """
    preview = _DryRun(request, pipeline, open_aws_access, started_at)
    return list(preview.list_steps())


class _DryRun:
    """State of a preview; stages with the same AWS access share planned resources."""

    def __init__(
        self,
        request: RunRequest,
        pipeline: Pipeline,
        open_aws_access: AwsAccessOpener,
        started_at: datetime,
    ) -> None:
        self._request, self._started_at = request, started_at
        self._budget = ReadBudget(calls=PREVIEW_CALLS, seconds=float(PREVIEW_SECONDS))
        self._callers: dict[tuple[str, str], PreviewCaller] = {}
        self._open_aws_access = open_aws_access
        self._outputs: dict[str, Any] = {}
        self._is_over = False
        self._execution = Execution(
            scope=pipeline.scope,
            pipeline=pipeline,
            number=pipeline.next_number,
            started_by=request.actor,
            yaml=pipeline.yaml,
            inputs=request.inputs,
            secret_inputs=json.dumps(request.secret_inputs) if request.secret_inputs else "",
            artifact=request.artifact,
            force_new_deployment=request.force_new_deployment,
        )

    def list_steps(self) -> Iterator[PreviewedStep]:
        for position, target in enumerate(self._request.targets):
            stage = plan_stage(self._execution, self._request.spec, target, position)
            stage_data = PreviewedStageData(
                self._execution, stage, self._get_caller(stage), build_stage_mask(stage), self._started_at
            )
            forecast = StageForecast(self._execution, stage, self._request.unknown)
            for planned in plan_steps(stage, target.spec):
                if planned.step.section == StepExecution.Section.EXECUTION:
                    yield self._preview_step(stage_data, planned, forecast.forecast_step(planned.step))
            self._outputs |= stage_data.get_step_outputs()

    def _get_caller(self, stage: StageExecution) -> PreviewCaller:
        key = (build_cache_key(stage.connector), stage.region)
        if key not in self._callers:
            self._callers[key] = PreviewCaller(_DeferredAwsAccess(self._open_aws_access), self._budget)
        return self._callers[key]

    def _preview_step(
        self, stage_data: PreviewedStageData, planned: PlannedStep, verdict: ConditionForecast
    ) -> PreviewedStep:
        step_data = PreviewedStepData(planned.step)
        stage_data.steps.append(step_data)
        step = PreviewedStep(
            step_data, stage_data.caller, stage_data.mask, is_reached=not self._is_over, verdict=verdict
        )
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
    """Return whether a step does nothing: it is skipped, or its unclear condition fails it."""
    if step.verdict.problem:
        step.failure = PreviewFailure("UNCLEAR_CONDITION", step.verdict.problem)
    step.step_data.is_skipped = bool(step.verdict.skipped)
    return bool(step.verdict.skipped or step.verdict.problem)


def run_actions(
    stage_data: PreviewedStageData, step: PreviewedStep, actions: Iterable[Action], outputs: Mapping[str, Any]
) -> None:
    """Run the actions of one step up to the first failure; record the result in `step`."""
    first_call = len(stage_data.caller.calls)
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
    step.calls = stage_data.caller.calls[first_call:]


def _run_action(action: Action, context: PreviewStepContext, step: PreviewedStep) -> None:
    try:
        action.start(context)
    except WorkPlanned:
        return
    try:
        # An unfinished action counts as done: a preview does not wait.
        action.is_done(context)
    except ActionFailed as failed:
        step.warnings.append(f"{action.title}: {failed.message}")
    except (ExistsOnlyInPreview, WorkPlanned):
        return


@dataclass
class _DeferredAwsAccess:
    """AWS access opened with each call, so that an unavailable connector is part of the result."""

    open_aws_access: AwsAccessOpener
    step: StepExecution | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert self.step is not None  # noqa: S101 - only a running step makes calls
        return self.open_aws_access(self.step).call(service, operation, params)
