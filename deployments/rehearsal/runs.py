"""Run of a rehearsal: the steps of a pipeline, in order, up to the first failure."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from aws.errors import AwsError
from deployments.engine.action_phases import build_refusal
from deployments.engine.stage_execution import build_timeout_failure
from deployments.execution.planning.rows import PlannedStep, plan_stage, plan_steps
from deployments.execution.planning.run_requests import RunRequest
from deployments.journal.secret_values import build_stage_mask
from deployments.models import Execution, StageExecution, StepExecution
from deployments.preview.conditions import StageForecast
from deployments.preview.dry_run import KnownOnlyInRun, resolve_actions
from deployments.preview.step_context import PreviewedStageData
from deployments.rehearsal.clocks import RehearsalClock
from deployments.rehearsal.cluster_reads import ClusterSnapshot
from deployments.rehearsal.results import RehearsedStep
from deployments.rehearsal.sandbox_access import RehearsalSandbox, open_sandbox_caller
from deployments.rehearsal.step_context import (
    OUTSIDE_AWS,
    ManifestReads,
    NotRehearsed,
    RehearsalCaller,
    RehearsalStepContext,
    RehearsedStepData,
)
from pipelines.models import Pipeline
from steps.actions.base import Action, ActionFailed

OTHER_PLACE = "It deploys to another cluster, region or connector than the first stage."
APPROVAL_ASSUMED = "Nobody is asked: a rehearsal assumes the approval."
# Steps whose outcome the sandbox knows. It has no metrics, and makes up stacks by their names.
REHEARSED_PREFIX, _REHEARSED_TYPES = "Ecs", ("Wait", "HarnessApproval")


class RehearsalRun:
    """Run of all steps against a filled sandbox, until `deadline` of the monotonic clock."""

    def __init__(
        self,
        request: RunRequest,
        pipeline: Pipeline,
        sandbox: RehearsalSandbox,
        snapshot: ClusterSnapshot,
        deadline: float,
    ) -> None:
        self._request, self._sandbox, self._snapshot = request, sandbox, snapshot
        self.clock = RehearsalClock(sandbox, deadline)
        self._outputs: dict[str, Any] = {}
        self._final_steps: set[str] = set()
        self._actions_begun = 0
        self._is_over = False
        self.execution = Execution(
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

    def list_steps(self) -> Iterator[RehearsedStep]:
        """Yield each step after its run. Raises `SandboxLost`, `RehearsalTooLong`, `CannotPlanError`."""
        for position, target in enumerate(self._request.targets):
            stage = plan_stage(self.execution, self._request.spec, target, position)
            caller = RehearsalCaller(open_sandbox_caller(self._sandbox.url, stage.region), ManifestReads())
            stage_data = PreviewedStageData(self.execution, stage, caller, build_stage_mask(stage))
            forecast = StageForecast(self.execution, stage, self._request.unknown)
            for planned in plan_steps(stage, target.spec):
                if planned.step.section == StepExecution.Section.EXECUTION:
                    step = self._rehearse(stage_data, caller, planned, forecast)
                    self._record_end(step)
                    yield step
            self._outputs |= stage_data.get_step_outputs()

    def _rehearse(
        self,
        stage_data: PreviewedStageData,
        caller: RehearsalCaller,
        planned: PlannedStep,
        forecast: StageForecast,
    ) -> RehearsedStep:
        step = RehearsedStep(RehearsedStepData(planned.step))
        stage_data.steps.append(step.step_data)
        if self._is_over:
            return step
        verdict = forecast.forecast_step(planned.step)
        if verdict.run_conditions:
            steps = {**self._outputs, **stage_data.get_step_outputs()}
            verdict = forecast.forecast_conditions(verdict.run_conditions, steps, self._final_steps)
        if verdict.problem:
            self._fail(step, stage_data, ActionFailed("UNCLEAR_CONDITION", verdict.problem))
        elif verdict.skipped:
            step.status, step.reason = "SKIPPED", verdict.skipped
            step.step_data.is_skipped = True
        elif verdict.run_conditions:
            reason = f"It depends on {', '.join(verdict.run_conditions)}, which only a run knows."
            step.status, step.reason = "NOT_REHEARSED", stage_data.mask.mask_text(reason)
        elif reason := self._find_obstacle(planned.step):
            step.status, step.reason = "NOT_REHEARSED", reason
        else:
            self._run_step(stage_data, caller, planned, step)
        return step

    def _record_end(self, step: RehearsedStep) -> None:
        """Record whether a run has no other outputs of a step; those of an approval come from people."""
        is_assumed = step.reason == APPROVAL_ASSUMED
        if step.status in ("SUCCEEDED", "SKIPPED") and not is_assumed:
            self._final_steps.add(step.step_data.step.identifier)
        else:
            self._final_steps.discard(step.step_data.step.identifier)

    def _find_obstacle(self, step: StepExecution) -> str:
        """Return the reason why a step cannot be rehearsed, or an empty text."""
        if not step.type.startswith(REHEARSED_PREFIX) and step.type not in _REHEARSED_TYPES:
            return OUTSIDE_AWS if step.type != "Verify" else "The sandbox has no metrics and alarms."
        return "" if self._is_at_home(step.stage) else OTHER_PLACE

    def _is_at_home(self, stage: StageExecution) -> bool:
        first = self._request.targets[0].infrastructure
        place = (stage.region, stage.cluster, stage.connector_id)
        return place == (self._snapshot.region, self._snapshot.cluster, first.connector.pk)

    def _run_step(
        self,
        stage_data: PreviewedStageData,
        caller: RehearsalCaller,
        planned: PlannedStep,
        step: RehearsedStep,
    ) -> None:
        caller.manifests.step = planned.step
        first_call, began_at = len(caller.calls), self.clock.now
        timeout_at = began_at + timedelta(seconds=planned.step.timeout_seconds)
        try:
            for action in resolve_actions(stage_data, planned, self._outputs):
                self._run_action(stage_data, step.step_data, action, timeout_at)
            step.status = "SUCCEEDED"
            step.reason = APPROVAL_ASSUMED if planned.step.type == "HarnessApproval" else ""
        except ActionFailed as failure:
            self._fail(step, stage_data, failure)
        except AwsError as error:
            self._fail(step, stage_data, build_refusal(stage_data.stage, error).failure)
        except (NotRehearsed, KnownOnlyInRun) as reason:
            step.status, step.reason = "NOT_REHEARSED", stage_data.mask.mask_text(str(reason))
        step.seconds = self.clock.get_seconds_since(began_at)
        calls = caller.calls[first_call:]
        step.writes = [f"{call.service}:{call.operation}" for call in calls if call.is_write]

    def _fail(self, step: RehearsedStep, stage_data: PreviewedStageData, failure: ActionFailed) -> None:
        step.status, step.code = "FAILED", failure.code
        step.reason = stage_data.mask.mask_text(failure.message)
        self._is_over = True

    def _run_action(
        self,
        stage_data: PreviewedStageData,
        step_data: RehearsedStepData,
        action: Action,
        timeout_at: datetime,
    ) -> None:
        """Run an action to its end, as the engine does. Raises `ActionFailed` and `AwsError`."""
        self._actions_begun += 1
        context = RehearsalStepContext(stage_data, step_data, self._actions_begun, self._outputs, self.clock)
        action.start(context)
        while not action.is_done(context):
            if context.is_write_requested:
                context.is_write_requested = False
                action.write(context)
            elif self.clock.now >= timeout_at and not action.watches_timeout:
                result = action.check_at_timeout(context)
                if result is True:
                    return
                cause = result if isinstance(result, ActionFailed) else None
                raise build_timeout_failure(step_data.step, cause)
            else:
                context.pass_time()
