"""What the rest of a run under way would do: the steps after one, run as a preview runs them."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from aws.caller import Caller
from aws.preview import Budget, PreviewCaller
from deployments.engine.ahead import Would
from deployments.engine.flow import flow_of
from deployments.engine.masking import secrets_of
from deployments.models import Memory, StageExecution, StepExecution
from deployments.plan import PlannedStep
from deployments.preview.documents import ShownStep, shown_step
from deployments.preview.late import OnlyInARun, actions_now
from deployments.preview.memories import StageMemory, StepMemory
from deployments.preview.running import Failure, PreviewedStep, act_all, is_settled
from deployments.preview.whether import Outlook, Verdict, has_failed
from deployments.regions import known_region
from guards.limits import PREVIEW_CALLS, PREVIEW_SECONDS
from guards.masks import Mask
from steps.actions.base import UnknownActionError, load_action
from steps.states import Status


def run_remaining(asking: StepExecution, ways: list[tuple[StageExecution, Caller]]) -> tuple[Would, str]:
    """What each step after this one would do, in the stages that there is a way for, and the hash of it.

    The hash is of what would be sent, hidden values included. Raises what the ways raise beside `AwsError`.
    """
    remaining = _Remaining(asking)
    for stage, caller in ways:
        remaining.run(stage, caller)
    text = json.dumps(remaining.exact, sort_keys=True, default=str)
    return remaining.shown, hashlib.sha256(text.encode()).hexdigest()


_ELSEWHERE = "It makes its calls in a region of its own, which is not asked for this."


class _Remaining:
    """The rest of a run as it is tried out; stages behind the same way share what was planned."""

    def __init__(self, asking: StepExecution) -> None:
        self.shown: Would = {}
        self.exact: list[Any] = []
        self._asking = asking
        # They go on whatever is decided; what comes after them needs to know what they would do.
        self._beside = flow_of(asking.stage).beside(asking)
        self._budget = Budget(calls=PREVIEW_CALLS, seconds=float(PREVIEW_SECONDS))
        self._callers: dict[tuple[int, str], PreviewCaller] = {}
        self._outputs: dict[str, Any] = {}
        self._is_over = False

    def run(self, stage: StageExecution, way: Caller) -> None:
        caller = self._callers.setdefault(
            (stage.connector_id, stage.region), PreviewCaller(way, self._budget)
        )
        shared = StageMemory(stage.execution, stage, caller, Mask(secrets_of(stage)))
        outlook = Outlook(stage.execution, stage, has_failed=has_failed(stage))
        for step in _steps(stage):
            if self._is_behind(step):
                shared.steps.append(_done(step))
            else:
                self._try(shared, step, outlook.of_step(step))
        self._outputs |= shared.outputs()

    def _is_behind(self, step: StepExecution) -> bool:
        is_own = step.stage_id == self._asking.stage_id
        return step.status != Status.QUEUED or (is_own and step.position <= self._asking.position)

    def _try(self, shared: StageMemory, step: StepExecution, verdict: Verdict) -> None:
        previewed = _previewed(shared, step, verdict, self._outputs, is_reached=not self._is_over)
        self._is_over = self._is_over or previewed.failure is not None
        if step.pk in self._beside:
            return
        shown = _document(shown_step(previewed))
        self.shown[step.stage.identifier, step.identifier] = shown
        calls = [[call.service, call.operation, call.params] for call in previewed.writes]
        self.exact.append([step.stage.identifier, step.identifier, step.type, calls, shown])


def _steps(stage: StageExecution) -> list[StepExecution]:
    rows = stage.steps.filter(section=StepExecution.Section.EXECUTION)
    return list(
        rows.select_related("stage", "group__parent").prefetch_related("actions").order_by("position")
    )


def _done(step: StepExecution) -> StepMemory:
    """A step that has run: what it remembers and has learned."""
    kept = Memory.objects.filter(step=step, run=step.run)
    return StepMemory(step, remembered={one.name: one.value for one in kept}, facts=dict(step.outputs))


def _previewed(
    shared: StageMemory,
    step: StepExecution,
    verdict: Verdict,
    outputs: dict[str, Any],
    *,
    is_reached: bool,
) -> PreviewedStep:
    memory = StepMemory(step)
    shared.steps.append(memory)
    previewed = PreviewedStep(memory, shared.caller, is_reached=is_reached, verdict=verdict)
    if not is_reached or is_settled(previewed):
        return previewed
    if known_region(shared.stage, step) != shared.stage.region:
        previewed.warnings.append(_ELSEWHERE)
        return previewed
    rows = sorted(step.actions.all(), key=lambda row: row.position)
    try:
        planned = [(row.unit, load_action(row.name, row.version, row.parameters)) for row in rows]
        actions = actions_now(shared, PlannedStep(step, planned), outputs)
    except UnknownActionError as unknown:
        previewed.failure = Failure("UNKNOWN_ACTION", str(unknown))
        return previewed
    except OnlyInARun as unknown:
        previewed.warnings.append(shared.mask.text(str(unknown)))
        return previewed
    act_all(shared, previewed, actions, outputs)
    return previewed


def _document(shown: ShownStep) -> dict[str, Any]:
    return {
        "changes": shown.changes,
        "calls": [{**call.to_json(), "text": call.text} for call in shown.calls],
        "diffs": [{"old": one.old, "new": one.new, "diff": asdict(one.diff)} for one in shown.diffs],
        "warnings": list(shown.warnings),
        "failure": asdict(shown.failure) if shown.failure else None,
        "reached": shown.is_reached,
        "skipped": shown.skipped,
        "depends": list(shown.depends),
    }
