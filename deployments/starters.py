"""What a new service and a new pipeline begin with: texts that can be deployed once the names are right."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from deployments.catalog import ManifestSpec
from deployments.models import Manifest
from steps.kinds.base import step_kind
from steps.strategies.base import known_strategies

_CAPITAL = re.compile(r"(?=[A-Z])")

TASK_DEFINITION = """\
# What ECS runs. The image is the service's artifact, with the tag that is chosen at each run.
family: my-service
requiresCompatibilities:
  - FARGATE
networkMode: awsvpc
cpu: '256'
memory: '512'
containerDefinitions:
  - name: app
    image: <+primary.artifact.image>
    essential: true
    portMappings:
      - containerPort: 80
"""
SERVICE_DEFINITION = """\
# How ECS keeps it running. Put your own subnets and security groups here.
serviceName: my-service
launchType: FARGATE
desiredCount: 1
networkConfiguration:
  awsvpcConfiguration:
    subnets:
      - subnet-0123456789abcdef0
    securityGroups:
      - sg-0123456789abcdef0
    assignPublicIp: ENABLED
deploymentConfiguration:
  maximumPercent: 200
  minimumHealthyPercent: 100
"""
SCALABLE_TARGET = """\
# Between how many tasks auto scaling may choose. The cluster and the ECS service are filled in.
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
minCapacity: 1
maxCapacity: 3
"""
SCALING_POLICY = """\
# When it scales: here such that the tasks use about 60 % of their CPU. Each manifest is one policy.
policyName: cpu-at-60-percent
policyType: TargetTrackingScaling
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
targetTrackingScalingPolicyConfiguration:
  targetValue: 60
  predefinedMetricSpecification:
    predefinedMetricType: ECSServiceAverageCPUUtilization
  scaleOutCooldown: 300
  scaleInCooldown: 300
"""
# What a manifest of each kind may begin with.
STARTERS = {
    Manifest.Kind.TASK_DEFINITION.value: TASK_DEFINITION,
    Manifest.Kind.SERVICE_DEFINITION.value: SERVICE_DEFINITION,
    Manifest.Kind.SCALABLE_TARGET.value: SCALABLE_TARGET,
    Manifest.Kind.SCALING_POLICY.value: SCALING_POLICY,
}


def new_manifests() -> list[ManifestSpec]:
    """The two manifests that a service cannot be deployed without."""
    return [
        ManifestSpec("task_definition", Manifest.Kind.TASK_DEFINITION, "Inline", content=TASK_DEFINITION),
        ManifestSpec(
            "service_definition", Manifest.Kind.SERVICE_DEFINITION, "Inline", content=SERVICE_DEFINITION
        ),
    ]


def new_pipeline(
    strategy: str,
    *,
    service: str,
    environment: str,
    infrastructure: str,
    title: str,
    is_dynamic: bool = False,
) -> str:
    """A pipeline with one stage that deploys a service by a strategy, its steps written out.

    For a dynamic infrastructure it has a provisioner too, a script to change.
    """
    filling = known_strategies()[strategy]()
    stage = {
        "identifier": f"deploy_to_{environment}",
        "name": f"Deploy to {environment}",
        "type": "Deployment",
        "spec": {
            "deploymentType": "ECS",
            "service": {"serviceRef": service},
            "environment": {
                "environmentRef": environment,
                "infrastructureDefinitions": [{"identifier": infrastructure}],
                **({"provisioner": {"steps": [_scripted()]}} if is_dynamic else {}),
            },
            "execution": {
                "steps": [_with_examples(one) for one in filling.steps],
                "rollbackSteps": [_with_examples(one) for one in filling.rollback_steps],
            },
        },
    }
    pipeline = {"identifier": f"deploy_{service}", "name": f"Deploy {title}", "stages": [{"stage": stage}]}
    return yaml.dump(
        {"pipeline": pipeline},
        Dumper=_Indented,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
    )


def _scripted() -> dict[str, Any]:
    """A script that makes a cluster, for a provisioner to begin with."""
    kind = step_kind("ShellScriptProvision")
    step = {"type": kind.type, "identifier": "provision", "name": kind.title, "spec": dict(kind.starter)}
    return {"step": step}


def _with_examples(document: Mapping[str, Any]) -> dict[str, Any]:
    """The step with a name to replace for each field that it cannot do without."""
    step = document["step"]
    spec = {name: f"my-{_CAPITAL.sub('-', name).lower()}" for name in step_kind(step["type"]).needed}
    return {"step": {**step, "spec": spec} if spec else {**step}}


class _Indented(yaml.SafeDumper):
    """Writes lists further in than the key that holds them, and each text where it is used."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists too."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Write everything out: a pipeline may hold no references."""
        return True
