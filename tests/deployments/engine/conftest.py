"""Pipelines of several steps, side by side and under conditions, in front of the sandbox."""

from collections.abc import Callable
from textwrap import indent

import pytest

from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.execution.conftest import client, strategies, until_asked
from tests.fixtures.engine_driver import Drive
from tests.stories.run_task.conftest import DEFINITION, inline, request_text

__all__ = ["_full_buckets", "client", "drive", "strategies", "until_asked"]

STAGE = """
- stage:
    identifier: {name}
    type: Deployment{more}
    spec:
      deploymentType: ECS
      service: {{serviceRef: myapp}}
      environment:
        environmentRef: dev
        infrastructureDefinitions: [{{identifier: sandbox}}]
      execution:
        steps:
{steps}
        rollbackSteps:
          - step: {{identifier: back_{name}, type: EcsRollingRollback}}
"""
DEPLOY = "- step: {identifier: deploy, type: EcsRollingDeploy}\n"
Write = Callable[..., Drive]


def stage_text(steps: str, name: str = "app", fields: str = "") -> str:
    """Return one stage with these steps; `fields` are more fields, such as its condition."""
    return STAGE.format(
        name=name, steps=indent(steps.strip("\n"), " " * 10), more=f"\n    {fields}" * bool(fields)
    )


def pipeline_text(*stages: str, variables: str = "{}") -> str:
    """Return a pipeline with these stages."""
    stages_text = indent("".join(stages), "    ")
    header = f"pipeline:\n  identifier: flow\n  name: Flow\n  variables: {variables}\n  stages:\n"
    return f"{header}{stages_text}"


def job(drive: Drive, name: str, fields: str = "", definition: str = "", task_fields: str = "") -> str:
    """Return a step with a task that ends after a few seconds."""
    spec = inline("runTaskRequestDefinition", request_text(drive))
    finished_definition = DEFINITION.replace("<+primary.artifact.tag>", "done")
    spec += task_fields or inline("taskDefinition", definition or finished_definition)
    header = f"- step:\n    identifier: {name}\n    type: EcsRunTask\n" + (
        f"    {fields}\n" if fields else ""
    )
    return f"{header}    spec:\n{indent(spec, ' ' * 6)}"


@pytest.fixture
def write(drive: Drive) -> Write:
    """Let the drive run a pipeline, saved as a person would save it."""

    def save(text: str) -> Drive:
        admin = User.objects.get(username="admin")
        project = Scope.objects.get(path="account/default/demo")
        before = Pipeline.objects.filter(identifier="flow").first()
        drive.pipeline = save_pipeline(actor=admin, scope=project, yaml=text, pipeline=before)
        return drive

    return save
