"""Run of a rehearsal: the steps of a pipeline, in order, up to the first failure."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from deployments.rehearsal.cluster_reads import ClusterSnapshot
from deployments.rehearsal.sandbox_access import RehearsalSandbox, open_sandbox_caller
from deployments.rehearsal.step_context import (
    OUTSIDE_AWS,
    ManifestReads,
    NotRehearsed,
    RehearsalCaller,
    RehearsalClock,
    RehearsalStepContext,
    RehearsedStepData,
)
from guards.limits import REHEARSAL_SECONDS
from pipelines.models import Pipeline
from steps.actions.base import Action, ActionFailed

CHECK_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
MOST_REHEARSED_TIME = timedelta(hours=6)
OTHER_PLACE = "It deploys to another cluster, region or connector than the first stage."
APPROVAL_ASSUMED = "Nobody is asked: a rehearsal assumes the approval."
# Steps whose outcome the sandbox knows. It has no metrics, and makes up stacks by their names.
_REHEARSED_PREFIX, _REHEARSED_TYPES = "Ecs", ("Wait", "HarnessApproval")


class RehearsalTooLong(Exception):
    """Error raised above the limit of a rehearsal; the text names the limit."""


@dataclass
class RehearsedStep:
    """Result of one step: SUCCEEDED, FAILED, NOT_REHEARSED, SKIPPED or NOT_REACHED, with `reason`."""

    step_data: RehearsedStepData
    status: str = "NOT_REACHED"
    reason: str = ""
    code: str = ""
    seconds: int = 0
    """Rehearsed seconds."""
    writes: list[str] = field(default_factory=list)

    @property
    def log(self) -> list[dict[str, Any]]:
        """Return the log lines with their rehearsed seconds."""
        lines = zip(self.step_data.times, self.step_data.lines, strict=True)
        return [{"at": at, "level": level, "text": text} for at, (level, text) in lines]

    def to_json(self) -> dict[str, Any]:
        step = self.step_data.step
        return {
            "identifier": step.identifier,
            "name": step.name,
            "type": step.type,
            "stage": step.stage.identifier,
            "status": self.status,
            "reason": self.reason,
            "code": self.code,
            "seconds": self.seconds,
            "writes": self.writes,
            "log": self.log,
        }


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
        self._deadline = deadline
        now = sandbox.advance(0)
        self.clock = RehearsalClock(now, now)
        self._outputs: dict[str, Any] = {}
        self._actions_begun = 0
        self._is_over = False
        self.execution = Execution(
            scope=pipeline.scope,
            pipeline=pipeline,
            number=pipeline.next_number,
            yaml=pipeline.yaml,
            inputs=request.inputs,
            secret_inputs=json.dumps(request.secret_inputs) if request.secret_inputs else "",
            artifact=request.artifact,
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
                    yield self._rehearse(stage_data, caller, planned, forecast)
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
        if verdict.problem:
            self._fail(step, stage_data, ActionFailed("UNCLEAR_CONDITION", verdict.problem))
        elif verdict.skipped:
            step.status, step.reason = "SKIPPED", verdict.skipped
        elif reason := self._find_obstacle(planned.step):
            step.status, step.reason = "NOT_REHEARSED", reason
        else:
            self._run_step(stage_data, caller, planned, step)
        return step

    def _find_obstacle(self, step: StepExecution) -> str:
        """Return the reason why a step cannot be rehearsed, or an empty text."""
        if not step.type.startswith(_REHEARSED_PREFIX) and step.type not in _REHEARSED_TYPES:
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
        step.seconds = int((self.clock.now - began_at).total_seconds())
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
                self._pass_time(context)

    def _pass_time(self, context: RehearsalStepContext) -> None:
        if time.monotonic() > self._deadline:
            raise RehearsalTooLong(f"Unknown: it took longer than the {REHEARSAL_SECONDS} of a rehearsal.")
        if self.clock.now - self.clock.started_at > MOST_REHEARSED_TIME:
            hours = MOST_REHEARSED_TIME.total_seconds() / 3600
            raise RehearsalTooLong(f"Unknown: a rehearsal ends after {hours:g} rehearsed hours.")
        pause = CHECK_SECONDS
        if context.wakes_at is not None:
            remaining = (context.wakes_at - self.clock.now).total_seconds()
            pause = min(max(remaining, CHECK_SECONDS), LONGEST_PAUSE_SECONDS)
            context.wakes_at = None
        self.clock.now = self._sandbox.advance(pause)
