"""Deployments with the task definitions that they deployed, written as rows."""

import json
from typing import Any

from django.utils import timezone

from deployments.models import Execution, RollbackValue, StageExecution
from inventory.models.instances import EcsServiceRecord
from steps.states import Outcome, Status
from tests.api.sample_project import World

ARN = "arn:aws:ecs:us-east-1:123456789012:task-definition/app"


def build_definition(**container: Any) -> dict[str, Any]:
    """Return a task definition with one container."""
    return {"family": "app", "containerDefinitions": [{"name": "app", **container}]}


def create_deployment(
    world: World, number: int, definition: dict[str, Any] | None, *, status: str = Status.SUCCESS
) -> StageExecution:
    """Create an ended deployment like that of the world, which registered revision `number`."""
    now = timezone.now()
    first = world.execution
    execution = Execution.objects.create(
        scope=first.scope,
        pipeline=first.pipeline,
        number=number,
        yaml=first.yaml,
        artifact={**first.artifact, "tag": f"v{number}"},
        status=status,
        outcome=Outcome.COMPLETED if status == Status.SUCCESS else Outcome.FAILED,
        started_at=now,
        ended_at=now,
    )
    stage = first.stages.get()
    step = stage.steps.get(type="EcsRollingDeploy")
    stage.pk, stage._state.adding, stage.execution, stage.status = None, True, execution, status
    stage.save()
    step.pk, step._state.adding, step.stage, step.status = None, True, stage, status
    step.outputs = {"taskDefinitionArn": f"{ARN}:{number}"}
    step.save()
    if definition is not None:
        RollbackValue.objects.create(
            step=step, run=step.run, name="task definition", value=json.dumps(definition)
        )
    return stage


def set_running(number: int | None) -> None:
    """Let sync have read one running ECS service with this revision, or none."""
    EcsServiceRecord.objects.exclude(name="theirs").update(
        desired=0 if number is None else 1, task_definition=f"{ARN}:{number}" if number else ""
    )
