"""What the rest of a stage under way would do: its steps after one, run as a preview runs them."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from aws.caller import Caller
from aws.preview import Budget, PreviewCaller
from deployments.actions.base import UnknownActionError, load_action
from deployments.engine.masking import secrets_of
from deployments.models import Memory, StepExecution
from deployments.plan import PlannedStep
from deployments.preview.documents import ShownStep, shown_step
from deployments.preview.late import OnlyInARun, actions_now
from deployments.preview.rollout import StageMemory, StepMemory
from deployments.preview.running import Failure, PreviewedStep, act_all
from deployments.states import Status
from guards.limits import PREVIEW_CALLS, PREVIEW_SECONDS
from guards.masks import Mask


def run_remaining(asking: StepExecution, caller: Caller) -> tuple[dict[str, dict[str, Any]], str]:
    """What each step after this one would do, by its identifier, and the hash of all of it.

    The hash is of what would be sent, hidden values included. Raises what `caller` raises beside `AwsError`.
    """
    stage = asking.stage
    budget = Budget(calls=PREVIEW_CALLS, seconds=float(PREVIEW_SECONDS))
    shared = StageMemory(stage.execution, stage, PreviewCaller(caller, budget), Mask(secrets_of(stage)))
    shown: dict[str, dict[str, Any]] = {}
    exact: list[Any] = []
    is_over = False
    for step in _steps(asking):
        if step.position <= asking.position or step.status != Status.QUEUED:
            shared.steps.append(_done(step))
            continue
        previewed = _previewed(shared, step, is_reached=not is_over)
        is_over = is_over or previewed.failure is not None
        document = shown_step(previewed)
        shown[step.identifier] = _document(document)
        calls = [[call.service, call.operation, call.params] for call in previewed.writes]
        exact.append([step.identifier, step.type, calls, shown[step.identifier]])
    text = json.dumps(exact, sort_keys=True, default=str)
    return shown, hashlib.sha256(text.encode()).hexdigest()


def _steps(asking: StepExecution) -> list[StepExecution]:
    rows = asking.stage.steps.filter(section=StepExecution.Section.EXECUTION)
    return list(rows.select_related("stage").prefetch_related("actions").order_by("position"))


def _done(step: StepExecution) -> StepMemory:
    """A step that has run: what it remembers and has learned."""
    kept = Memory.objects.filter(step=step, run=step.run)
    return StepMemory(step, remembered={one.name: one.value for one in kept}, facts=dict(step.outputs))


def _previewed(shared: StageMemory, step: StepExecution, *, is_reached: bool) -> PreviewedStep:
    memory = StepMemory(step)
    shared.steps.append(memory)
    previewed = PreviewedStep(memory, shared.caller, is_reached=is_reached)
    if not is_reached:
        return previewed
    rows = sorted(step.actions.all(), key=lambda row: row.position)
    try:
        planned = [(row.unit, load_action(row.name, row.version, row.parameters)) for row in rows]
        actions = actions_now(shared, PlannedStep(step, planned), {})
    except UnknownActionError as unknown:
        previewed.failure = Failure("UNKNOWN_ACTION", str(unknown))
        return previewed
    except OnlyInARun as unknown:
        previewed.warnings.append(shared.mask.text(str(unknown)))
        return previewed
    act_all(shared, previewed, actions, {})
    return previewed


def _document(shown: ShownStep) -> dict[str, Any]:
    return {
        "changes": shown.changes,
        "calls": [{**call.to_json(), "text": call.text} for call in shown.calls],
        "diffs": [{"old": one.old, "new": one.new, "diff": asdict(one.diff)} for one in shown.diffs],
        "warnings": list(shown.warnings),
        "failure": asdict(shown.failure) if shown.failure else None,
        "reached": shown.is_reached,
    }
