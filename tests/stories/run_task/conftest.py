"""A pipeline with a stage that only runs tasks, and the texts of what it runs."""

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest

from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive

__all__ = ["_full_buckets", "drive"]

DEFINITION = """
family: migration
requiresCompatibilities: [FARGATE]
networkMode: awsvpc
cpu: "256"
memory: "512"
executionRoleArn: arn:aws:iam::123456789012:role/ecsTaskExecutionRole
containerDefinitions:
  - name: migrate
    image: example.com/migrate:<+primary.artifact.tag>
    logConfiguration:
      logDriver: awslogs
      options:
        awslogs-group: /ecs/myapp
        awslogs-region: us-east-1
        awslogs-stream-prefix: run
"""
SIDECAR = """
  - name: helper
    image: example.com/helper:crash
    essential: false
"""


def request_text(drive: Drive, more: str = "") -> str:
    """A RunTask request for the sandbox's network."""
    seed = drive.sandbox.seed()
    subnets, group = ", ".join(seed["subnets"]), seed["security_group"]
    return f"""
launchType: FARGATE
networkConfiguration:
  awsvpcConfiguration:
    subnets: [{subnets}]
    securityGroups: [{group}]
    assignPublicIp: ENABLED
{more}"""


def inline(field: str, text: str) -> str:
    """A manifest as a step's spec holds it."""
    return f"{field}:\n  type: Inline\n  spec:\n    content: |\n{indent(text.strip(), ' ' * 6)}\n"


def pipeline_text(spec: str, timeout: str = "10m", failing: str = "") -> str:
    """A pipeline with one stage and one run-task step."""
    return f"""
pipeline:
  identifier: run_task
  name: Run task
  stages:
    - stage:
        identifier: jobs
        type: Deployment
        spec:
          deploymentType: ECS
          service: {{serviceRef: myapp}}
          environment:
            environmentRef: dev
            infrastructureDefinitions: [{{identifier: sandbox}}]
          execution:
            steps:
              - step:
                  type: EcsRunTask
                  identifier: migrate
                  timeout: {timeout}
                  failureStrategies: [{failing}]
                  spec:
{indent(spec, " " * 20)}
"""


@pytest.fixture
def job(drive: Drive) -> Callable[..., Drive]:
    """Return a function that gives the drive a pipeline with one RunTask step."""

    def make(
        definition: str = DEFINITION, more: str = "", request: str = "", fields: str = "", **choices: Any
    ) -> Drive:
        spec = inline("runTaskRequestDefinition", request or request_text(drive, more))
        spec += (inline("taskDefinition", definition) if definition else "") + fields
        admin = User.objects.get(username="admin")
        project = Scope.objects.get(path="account/default/demo")
        before = Pipeline.objects.filter(identifier="run_task").first()
        yaml = pipeline_text(spec, **choices)
        drive.pipeline = save_pipeline(actor=admin, scope=project, yaml=yaml, pipeline=before)
        return drive

    return make
