"""Runs the actions of a pipeline's steps in order, as far as they would go."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from aws.caller import Caller
from aws.errors import AwsError, Denied
from aws.preview import Budget, OnlyPlanned, PlannedCall, PreviewCaller, PreviewStopped
from delegates.doors import DoorClosed, door_key
from deployments import plan
from deployments.engine.masking import secrets_of
from deployments.models import Execution, StageExecution, StepExecution
from deployments.preview.late import OnlyInARun, actions_now
from deployments.preview.memories import StageMemory, StepMemory
from deployments.preview.rollout import PreviewRollout
from deployments.preview.whether import Outlook, Verdict
from deployments.preview.work import WorkPlanned
from deployments.run_requests import RunRequest
from guards.limits import PREVIEW_CALLS, PREVIEW_SECONDS
from guards.masks import Mask
from pipelines.models import Pipeline
from steps.actions.base import Action, ActionFailed

OpenDoor = Callable[[StepExecution], Caller]
"""The way to AWS of a step. Raises `DoorClosed`."""


@dataclass(frozen=True)
class Failure:
    """Why a run would come no further than this step."""

    code: str
    message: str
    action: str = ""
    """The IAM action that is missing, where that is why."""


@dataclass
class PreviewedStep:
    """What one step would do. `failure` says why it would end early; one that is not reached says so too."""

    memory: StepMemory
    caller: PreviewCaller
    calls: list[PlannedCall] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failure: Failure | None = None
    is_reached: bool = True
    verdict: Verdict = Verdict()

    @property
    def step(self) -> StepExecution:
        return self.memory.step

    @property
    def writes(self) -> list[PlannedCall]:
        return [call for call in self.calls if call.is_write]


def run_preview(asked: RunRequest, pipeline: Pipeline, open_door: OpenDoor) -> list[PreviewedStep]:
    """The steps of a run that is not started, in order; after one that would fail none is reached.

    Raises `CannotPlanError` as a run would, `CallPending` where a delegate has still to answer.
    """
    preview = _Preview(asked, pipeline, open_door)
    return list(preview.steps())


class _Preview:
    """One preview under way; stages behind the same door share what was planned."""

    def __init__(self, asked: RunRequest, pipeline: Pipeline, open_door: OpenDoor) -> None:
        self._asked = asked
        self._budget = Budget(calls=PREVIEW_CALLS, seconds=float(PREVIEW_SECONDS))
        self._callers: dict[tuple[str, str], PreviewCaller] = {}
        self._open_door = open_door
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
            stage = plan.planned_stage(self._execution, self._asked.spec, target, position)
            shared = StageMemory(self._execution, stage, self._caller(stage), Mask(secrets_of(stage)))
            outlook = Outlook(self._execution, stage, self._asked.unknown)
            for planned in plan.planned_steps(stage, target.spec):
                if planned.step.section == StepExecution.Section.EXECUTION:
                    yield self._step(shared, planned, outlook.of_step(planned.step))
            self._outputs |= shared.outputs()

    def _caller(self, stage: StageExecution) -> PreviewCaller:
        key = (door_key(stage.connector), stage.region)
        if key not in self._callers:
            self._callers[key] = PreviewCaller(_LateDoor(self._open_door), self._budget)
        return self._callers[key]

    def _step(self, shared: StageMemory, planned: plan.PlannedStep, verdict: Verdict) -> PreviewedStep:
        memory = StepMemory(planned.step)
        shared.steps.append(memory)
        step = PreviewedStep(memory, shared.caller, is_reached=not self._is_over, verdict=verdict)
        if self._is_over or is_settled(step):
            self._is_over = self._is_over or step.failure is not None
            return step
        cast("_LateDoor", shared.caller.caller).step = planned.step
        try:
            act_all(shared, step, actions_now(shared, planned, self._outputs), self._outputs)
        except OnlyInARun as unknown:
            step.warnings.append(str(unknown))
        self._is_over = step.failure is not None
        return step


def is_settled(step: PreviewedStep) -> bool:
    """Whether a step would do nothing: it is skipped, or its condition has no answer, which fails it."""
    if step.verdict.wrong:
        step.failure = Failure("UNCLEAR_CONDITION", step.verdict.wrong)
    return bool(step.verdict.skipped or step.verdict.wrong)


def act_all(
    shared: StageMemory, step: PreviewedStep, actions: Iterable[Action], outputs: Mapping[str, Any]
) -> None:
    """Run the actions of one step as far as they would go; what came of it is written into `step`."""
    first = len(shared.caller.made)
    try:
        for number, action in enumerate(actions, start=1):
            _act(action, PreviewRollout(shared, step.memory, number, outputs), step)
    except ActionFailed as failed:
        step.failure = Failure(failed.code, shared.mask.text(failed.message))
    except AwsError as error:
        missing = error.action if isinstance(error, Denied) else ""
        step.failure = Failure(f"AWS_{error.code}", shared.mask.text(error.sentence), missing)
    except (DoorClosed, PreviewStopped) as stopped:
        step.failure = Failure("PREVIEW_STOPPED", str(stopped))
    step.calls = shared.caller.made[first:]


def _act(action: Action, rollout: PreviewRollout, step: PreviewedStep) -> None:
    try:
        action.start(rollout)
    except WorkPlanned:
        return
    try:
        # What is not done yet is taken as done: a preview waits for nothing.
        action.is_done(rollout)
    except ActionFailed as failed:
        step.warnings.append(f"{action.title}: {failed.message}")
    except OnlyPlanned:
        return


@dataclass
class _LateDoor:
    """Opens the door of the step under way with each call, so that a closed one is part of the answer."""

    open_door: OpenDoor
    step: StepExecution | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert self.step is not None  # noqa: S101 - a step is under way when it calls
        return self.open_door(self.step).call(service, operation, params)
