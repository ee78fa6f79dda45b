"""Sample texts that new manifests start with."""

from catalog.models import Manifest
from catalog.operations import ManifestSpec

_NETWORK = """\
networkConfiguration:
  awsvpcConfiguration:
    subnets:
      - subnet-0123456789abcdef0
    securityGroups:
      - sg-0123456789abcdef0
    assignPublicIp: ENABLED
"""
SAMPLE_TASK_DEFINITION = """\
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
SAMPLE_SERVICE_DEFINITION = f"""\
# How ECS keeps it running. Put your own subnets and security groups here.
serviceName: my-service
launchType: FARGATE
desiredCount: 1
{_NETWORK}deploymentConfiguration:
  maximumPercent: 200
  minimumHealthyPercent: 100
"""
SAMPLE_RUN_TASK_DEFINITION = """\
# What ECS runs. The image is the service's artifact, with the tag that is chosen at each run.
family: my-task
requiresCompatibilities:
  - FARGATE
networkMode: awsvpc
cpu: '256'
memory: '512'
containerDefinitions:
  - name: task
    image: <+primary.artifact.image>
    essential: true
    command:
      - ./migrate.sh
"""
SAMPLE_RUN_TASK_REQUEST = f"""\
# How ECS runs it: one task, which ends by itself. Put your own subnets and security groups here.
launchType: FARGATE
count: 1
{_NETWORK}"""
SAMPLE_SCALABLE_TARGET = """\
# Between how many tasks auto scaling may choose. The cluster and the ECS service are filled in.
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
minCapacity: 1
maxCapacity: 3
"""
SAMPLE_SCALING_POLICY = """\
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
# Sample manifest of each kind.
SAMPLE_MANIFESTS = {
    Manifest.Kind.TASK_DEFINITION.value: SAMPLE_TASK_DEFINITION,
    Manifest.Kind.SERVICE_DEFINITION.value: SAMPLE_SERVICE_DEFINITION,
    Manifest.Kind.SCALABLE_TARGET.value: SAMPLE_SCALABLE_TARGET,
    Manifest.Kind.SCALING_POLICY.value: SAMPLE_SCALING_POLICY,
}


def build_default_manifests() -> list[ManifestSpec]:
    """Build the two manifests that every service needs."""
    return [
        ManifestSpec(
            "task_definition", Manifest.Kind.TASK_DEFINITION, "Inline", content=SAMPLE_TASK_DEFINITION
        ),
        ManifestSpec(
            "service_definition",
            Manifest.Kind.SERVICE_DEFINITION,
            "Inline",
            content=SAMPLE_SERVICE_DEFINITION,
        ),
    ]
