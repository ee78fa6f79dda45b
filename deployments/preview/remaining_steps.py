"""Dry run of the remaining steps of an execution that waits for approval."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from aws.caller import Caller
from aws.preview import PreviewCaller, ReadBudget
from deployments.approvals.plan import PlannedSource, PlannedSteps, RemainingEffects
from deployments.engine.action_phases import read_action
from deployments.engine.steps.scheduler import read_flow
from deployments.execution.planning.rows import PlannedStep
from deployments.journal.secret_values import build_stage_mask
from deployments.models import RollbackValue, StageExecution, StepExecution
from deployments.preview.conditions import ConditionForecast, StageForecast, has_failed
from deployments.preview.documents import PreviewedStepDetails, build_step_details
from deployments.preview.dry_run import (
    KnownOnlyInRun,
    PreviewedStep,
    PreviewFailure,
    is_skipped,
    resolve_actions,
    run_actions,
)
from deployments.preview.step_context import PreviewedStageData, PreviewedStepData
from deployments.regions import find_call_region
from guards.limits import PREVIEW_CALLS, PREVIEW_SECONDS
from steps.actions.base import UnknownActionError
from steps.states import Status
from web.clock import get_database_time


def preview_remaining_steps(
    approval_step: StepExecution, callers: list[tuple[StageExecution, Caller]]
) -> RemainingEffects:
    """Return the preview of each later step in the stages with a caller.

    Raises the errors of the callers other than `AwsError`.
    """
    remaining = _RemainingDryRun(approval_step)
    for stage, caller in callers:
        remaining.run(stage, caller)
    text = json.dumps(remaining.exact, sort_keys=True, default=str)
    exact = hashlib.sha256(text.encode()).hexdigest()
    return RemainingEffects(remaining.documents, exact, remaining.artifact, remaining.sources)


_OTHER_REGION = "It makes its calls in a region of its own, which is not asked for this."


class _RemainingDryRun:
    """Dry run of the rest of an execution; stages with the same connector share planned resources."""

    def __init__(self, approval_step: StepExecution) -> None:
        self.documents: PlannedSteps = {}
        self.exact: list[Any] = []
        self.artifact = approval_step.stage.execution.artifact
        self.sources: list[PlannedSource] = []
        self._approval_step = approval_step
        # Parallel steps continue regardless of the decision; later steps need their planned outputs.
        self._parallel_steps = read_flow(approval_step.stage).list_parallel_steps(approval_step)
        self._budget = ReadBudget(calls=PREVIEW_CALLS, seconds=float(PREVIEW_SECONDS))
        self._callers: dict[tuple[int, str], PreviewCaller] = {}
        self._outputs: dict[str, Any] = {}
        self._is_over = False

    def run(self, stage: StageExecution, aws_caller: Caller) -> None:
        caller = self._callers.setdefault(
            (stage.connector_id, stage.region), PreviewCaller(aws_caller, self._budget)
        )
        started_at = self._approval_step.started_at or get_database_time()
        # Each stage has its own copy of the execution.
        stage.execution.artifact = self.artifact
        stage_data = PreviewedStageData(stage.execution, stage, caller, build_stage_mask(stage), started_at)
        forecast = StageForecast(stage.execution, stage, has_failed=has_failed(stage))
        for step in _list_steps(stage):
            if self._is_behind(step):
                stage_data.steps.append(_load_finished_step(step))
            else:
                self._preview(stage_data, step, forecast.forecast_step(step))
        self._outputs |= stage_data.get_step_outputs()
        self.artifact = stage.execution.artifact
        self.sources += stage_data.fetched_sources

    def _is_behind(self, step: StepExecution) -> bool:
        is_own = step.stage_id == self._approval_step.stage_id
        return step.status != Status.QUEUED or (is_own and step.position <= self._approval_step.position)

    def _preview(
        self, stage_data: PreviewedStageData, step: StepExecution, verdict: ConditionForecast
    ) -> None:
        previewed = _preview_step(stage_data, step, verdict, self._outputs, is_reached=not self._is_over)
        self._is_over = self._is_over or previewed.failure is not None
        if step.pk in self._parallel_steps:
            return
        document = _build_document(build_step_details(previewed))
        self.documents[step.stage.identifier, step.identifier] = document
        calls = [[call.service, call.operation, call.params] for call in previewed.writes]
        self.exact.append([step.stage.identifier, step.identifier, step.type, calls, document])


def _list_steps(stage: StageExecution) -> list[StepExecution]:
    rows = stage.steps.filter(section=StepExecution.Section.EXECUTION)
    return list(
        rows.select_related("stage", "group__parent").prefetch_related("actions").order_by("position")
    )


def _load_finished_step(step: StepExecution) -> PreviewedStepData:
    """Return the rollback data and the outputs of a finished step."""
    values = RollbackValue.objects.filter(step=step, run=step.run)
    return PreviewedStepData(
        step,
        saved_values={value.name: value.value for value in values},
        outputs=dict(step.outputs),
        is_skipped=step.started_at is None,
    )


def _preview_step(
    stage_data: PreviewedStageData,
    step: StepExecution,
    verdict: ConditionForecast,
    outputs: dict[str, Any],
    *,
    is_reached: bool,
) -> PreviewedStep:
    step_data = PreviewedStepData(step)
    stage_data.steps.append(step_data)
    previewed = PreviewedStep(
        step_data, stage_data.caller, stage_data.mask, is_reached=is_reached, verdict=verdict
    )
    if not is_reached or is_skipped(previewed):
        return previewed
    if find_call_region(stage_data.stage, step) != stage_data.stage.region:
        previewed.warnings.append(_OTHER_REGION)
        return previewed
    rows = sorted(step.actions.all(), key=lambda row: row.position)
    try:
        planned = [(row.unit, read_action(row)) for row in rows]
        actions = resolve_actions(stage_data, PlannedStep(step, planned), outputs)
    except UnknownActionError as unknown:
        previewed.failure = PreviewFailure("UNKNOWN_ACTION", str(unknown))
        return previewed
    except KnownOnlyInRun as unknown:
        previewed.warnings.append(str(unknown))
        return previewed
    run_actions(stage_data, previewed, actions, outputs)
    return previewed


def _build_document(details: PreviewedStepDetails) -> dict[str, Any]:
    return {
        "changes": details.changes,
        "calls": [{**call.to_json(), "text": call.text} for call in details.calls],
        "diffs": [
            {"old": definition_diff.old, "new": definition_diff.new, "diff": asdict(definition_diff.diff)}
            for definition_diff in details.diffs
        ],
        "warnings": list(details.warnings),
        "failure": asdict(details.failure) if details.failure else None,
        "reached": details.is_reached,
        "skipped": details.skipped,
        "depends": list(details.depends),
    }
