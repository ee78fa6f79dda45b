"""What a new service and a new pipeline begin with: texts that can be deployed once the names are right."""

from deployments.catalog import ManifestSpec
from deployments.models import Manifest

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


def new_manifests() -> list[ManifestSpec]:
    """The two manifests that a service cannot be deployed without."""
    return [
        ManifestSpec("task_definition", Manifest.Kind.TASK_DEFINITION, "Inline", content=TASK_DEFINITION),
        ManifestSpec(
            "service_definition", Manifest.Kind.SERVICE_DEFINITION, "Inline", content=SERVICE_DEFINITION
        ),
    ]
