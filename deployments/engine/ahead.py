"""What would be done after a step: what people see, and approve, before it is.

`deployments.preview`, which stands above the engine, enters how the steps of a stage are tried out.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aws.caller import Caller
from deployments.models import StageExecution, StepExecution
from deployments.states import Status

TryOut = Callable[[StepExecution, Caller], tuple[dict[str, dict[str, Any]], str]]
_try_out: list[TryOut] = []


def register_try_out(try_out: TryOut) -> None:
    """Enter what says of each later step of a stage what it would do, and hashes all of it."""
    _try_out[:] = [try_out]


@dataclass(frozen=True)
class Ahead:
    """What would be done, as JSON, and the hash that tells it from anything else."""

    document: dict[str, Any]
    diff: str


def ahead_of(step: StepExecution, caller: Caller) -> Ahead:
    """What the steps after this one in its stage would do, by reads of AWS, and the plan of later stages.

    Raises what `caller` raises beside `AwsError`.
    """
    would, exact = _try_out[0](step, caller)
    stages = [_stage(stage, step) for stage in _stages_from(step)]
    for one in stages[0]["steps"]:
        one["would"] = would.get(one["identifier"])
    document = {"artifact": step.stage.execution.artifact, "stages": stages}
    text = json.dumps([document, exact], sort_keys=True, default=str)
    return Ahead(document, hashlib.sha256(text.encode()).hexdigest())


def _stages_from(step: StepExecution) -> list[StageExecution]:
    stages = step.stage.execution.stages.filter(position__gte=step.stage.position)
    return list(stages.order_by("position").prefetch_related("steps__actions"))


def _stage(stage: StageExecution, asking: StepExecution) -> dict[str, Any]:
    is_own = stage.pk == asking.stage_id
    steps = sorted(
        (one for one in stage.steps.all() if _is_ahead(one, asking if is_own else None)),
        key=lambda one: one.position,
    )
    return {
        "identifier": stage.identifier,
        "name": stage.name,
        "service": stage.values.get("service", {}).get("identifier"),
        "environment": stage.values.get("env", {}).get("identifier"),
        "infrastructure": stage.values.get("infra", {}).get("identifier"),
        "steps": [_step(one) for one in steps],
    }


def _is_ahead(step: StepExecution, asking: StepExecution | None) -> bool:
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
