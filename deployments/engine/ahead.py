"""What would be done after a step: what people see, and approve, before it is."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from deployments.models import StageExecution, StepExecution
from deployments.states import TERMINAL


@dataclass(frozen=True)
class Ahead:
    """What would be done, as JSON, and the hash that tells it from anything else."""

    document: dict[str, Any]
    diff: str


def ahead_of(step: StepExecution) -> Ahead:
    """What the steps after this one in its stage, and the stages after it, would do."""
    document = {
        "artifact": step.stage.execution.artifact,
        "stages": [_stage(stage, step) for stage in _stages_from(step)],
    }
    text = json.dumps(document, sort_keys=True, default=str)
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
    if step.section != StepExecution.Section.EXECUTION or step.status in TERMINAL:
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
