"""Plan of an approval: the effects of the run's later steps.

`deployments.preview`, which is above the engine, registers the dry run of steps.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from aws.caller import Caller
from delegates.access.aws_access import ConnectorUnavailable
from deployments.engine.steps.scheduler import read_flow
from deployments.journal.runtime import DirectAwsAccess
from deployments.models import StageExecution, StepExecution
from steps.actions.non_aws_calls import DELEGATE_SERVICE, READ_AWS
from steps.states import Status

if TYPE_CHECKING:
    from deployments.engine.steps.context import EngineStepContext

StageCallerFinder = Callable[[StageExecution], Caller | None]
"""The way to AWS of a stage; None where only a run can take it."""
PlannedSteps = dict[tuple[str, str], dict[str, Any]]
"""What each step would do, by the identifiers of its stage and its own."""


@dataclass(frozen=True)
class PlannedSource:
    """Manifest whose files a plan has read: of a step, or, without one, a row in the sources of a stage."""

    stage: StageExecution
    step: StepExecution | None
    number: int
    row: dict[str, Any]


@dataclass(frozen=True)
class RemainingEffects:
    """What the later steps of some stages would do, its hash with hidden values, and what it depends on."""

    steps: PlannedSteps
    exact: str
    artifact: dict[str, Any]
    """The image of the execution, with the digest if a step reads it."""
    sources: list[PlannedSource]


RemainingPreview = Callable[[StepExecution, list[tuple[StageExecution, Caller]]], RemainingEffects]
_remaining_previews: list[RemainingPreview] = []


def register_remaining_preview(try_out: RemainingPreview) -> None:
    """Register the function that previews the later steps of some stages."""
    _remaining_previews[:] = [try_out]


@dataclass(frozen=True)
class ApprovalPlan:
    """Planned effects as JSON, their hash, and the image and the files that they are planned with."""

    document: dict[str, Any]
    diff: str
    artifact: dict[str, Any]
    sources: list[PlannedSource]


def build_approval_plan(step: StepExecution, way_of: StageCallerFinder) -> ApprovalPlan:
    """Return the effects of the later steps from reads of AWS; without AWS access, the plan of a stage.

    Raises the errors of AWS access except `AwsError`.
    """
    rows = _stages_from(step)
    ways = [(stage, way) for stage in rows if (way := way_of(stage)) is not None]
    effects = _remaining_previews[0](step, ways)
    tried = {stage.pk for stage, _ in ways}
    stages = [{**_stage(stage, step), "tried": stage.pk in tried} for stage in rows]
    for stage in stages:
        for planned_step in stage["steps"]:
            planned_step["would"] = effects.steps.get((stage["identifier"], planned_step["identifier"]))
    document = {"artifact": effects.artifact, "stages": stages}
    text = json.dumps([document, effects.exact], sort_keys=True, default=str)
    diff = hashlib.sha256(text.encode()).hexdigest()
    return ApprovalPlan(document, diff, effects.artifact, effects.sources)


def find_stage_caller(context: "EngineStepContext", stage: StageExecution) -> Caller | None:
    """Return the AWS access of an action's stage or of a later one.

    For a stage with another connector or region, calls through delegates are calls of the action, so that the
    pass waits for them. Direct calls are repeated in each pass.
    """
    if not stage.region:
        # Known once it is provisioned.
        return None
    own = context.reconcile_context.stage
    if (stage.connector_id, stage.region) == (own.connector_id, own.region):
        if context.delegate_calls is not None:
            return context.caller
        aws_access = context.reconcile_context.get_aws_access(context.step)
        return _DirectStageCaller(context.caller, cast("DirectAwsAccess", aws_access))
    try:
        aws_access = context.runtime.open_aws_access(stage.connector, stage.region)
    except ConnectorUnavailable:
        return None
    if hasattr(aws_access, "queue"):
        return _OtherStageCaller(context.caller, stage)
    return _DirectStageCaller(context.caller, aws_access)


@dataclass(frozen=True)
class _DirectStageCaller:
    """Caller of a stage whose AWS calls this process makes; images and files are read by the action."""

    caller: Caller
    aws_access: DirectAwsAccess

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises as the action's own calls do."""
        caller = self.caller if service == DELEGATE_SERVICE else self.aws_access
        return caller.call(service, operation, params)


@dataclass(frozen=True)
class _OtherStageCaller:
    """Caller of a later stage with other delegates: calls of this action with their target."""

    caller: Caller
    stage: StageExecution

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises as the action's own calls do."""
        if service == DELEGATE_SERVICE:
            return self.caller.call(service, operation, params)
        stage = self.stage
        location = {"connector": stage.connector_id, "region": stage.region, "environment": stage.environment}
        request = {"service": service, "operation": operation, "params": dict(params)}
        return self.caller.call(DELEGATE_SERVICE, READ_AWS, {**location, **request})


def _stages_from(step: StepExecution) -> list[StageExecution]:
    stages = step.stage.execution.stages.filter(position__gte=step.stage.position)
    related = stages.select_related("execution__scope", "execution__pipeline", "connector__secret")
    return list(related.order_by("position").prefetch_related("steps__actions"))


def _stage(stage: StageExecution, asking: StepExecution) -> dict[str, Any]:
    is_own = stage.pk == asking.stage_id
    beside = read_flow(stage).list_parallel_steps(asking) if is_own else set()
    steps = sorted(
        (
            step
            for step in stage.steps.all()
            if step.pk not in beside and _is_later(step, asking if is_own else None)
        ),
        key=lambda step: step.position,
    )
    return {
        "identifier": stage.identifier,
        "name": stage.name,
        "service": stage.values.get("service", {}).get("identifier"),
        "environment": stage.values.get("env", {}).get("identifier"),
        "infrastructure": stage.values.get("infra", {}).get("identifier"),
        "placed": stage.has_location,
        "steps": [_step(step) for step in steps],
    }


def _is_later(step: StepExecution, asking: StepExecution | None) -> bool:
    if step.section != StepExecution.Section.EXECUTION or step.status != Status.QUEUED:
        return False
    return asking is None or step.position > asking.position


def _step(step: StepExecution) -> dict[str, Any]:
    rows = sorted(step.actions.all(), key=lambda row: row.position)
    return {
        "identifier": step.identifier,
        "name": step.name,
        "type": step.type,
        "actions": [row.title for row in rows],
    }
