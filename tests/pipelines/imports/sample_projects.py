"""Small projects of ecspresso and PipeCD, as their tools create them."""

import json
from typing import Any

from pipelines.imports.proposals import ImportSpec

ROLE = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"
ECSPRESSO_CONFIG = """region: us-east-1
cluster: demo
service: shop
service_definition: ecs-service-def.json
task_definition: ecs-task-def.json
timeout: 5m
"""
TASK_DEFINITION: dict[str, Any] = {
    "family": "shop",
    "networkMode": "awsvpc",
    "requiresCompatibilities": ["FARGATE"],
    "cpu": "256",
    "memory": "512",
    "executionRoleArn": ROLE,
    "containerDefinitions": [
        {
            "name": "web",
            "image": "nginx:{{ must_env `IMAGE_TAG` }}",
            "essential": True,
            "portMappings": [{"containerPort": 80, "hostPort": 80, "protocol": "tcp"}],
            "environment": [
                {"name": "COLOR", "value": "{{ env `COLOR` `blue` }}"},
                {"name": "STAGE", "value": "{{ must_env `STAGE` }}"},
            ],
        }
    ],
}
SERVICE_DEFINITION: dict[str, Any] = {
    "launchType": "FARGATE",
    "desiredCount": 1,
    "networkConfiguration": {
        "awsvpcConfiguration": {
            "subnets": ["subnet-1"],
            "securityGroups": ["sg-1"],
            "assignPublicIp": "ENABLED",
        }
    },
    "deploymentConfiguration": {
        "maximumPercent": 200,
        "minimumHealthyPercent": 100,
        "deploymentCircuitBreaker": {"enable": True, "rollback": True},
    },
}
TARGET_GROUP = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/shop/0123456789abcdef"
BALANCER = {"targetGroupArn": TARGET_GROUP, "containerName": "web", "containerPort": 80}
PIPECD_CONFIG = """apiVersion: pipecd.dev/v1beta1
kind: ECSApp
spec:
  name: shop
  input:
    clusterArn: arn:aws:ecs:us-east-1:123456789012:cluster/demo
    serviceDefinitionFile: servicedef.yaml
    taskDefinitionFile: taskdef.json
"""


def ecspresso_files(**changes: str) -> dict[str, str]:
    """Return the files of a project; a change replaces the text of the file config, service or task."""
    texts = {
        "config": ECSPRESSO_CONFIG,
        "service": json.dumps(SERVICE_DEFINITION, indent=2),
        "task": json.dumps(TASK_DEFINITION, indent=2),
        **changes,
    }
    return {
        "ecspresso.yml": texts["config"],
        "ecs-service-def.json": texts["service"],
        "ecs-task-def.json": texts["task"],
    }


def pipecd_files(config: str = PIPECD_CONFIG, service: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the files of an application; PipeCD needs the controller EXTERNAL."""
    task = json.dumps(TASK_DEFINITION).replace("{{ must_env `IMAGE_TAG` }}", "1.27")
    for template, value in (("{{ env `COLOR` `blue` }}", "blue"), ("{{ must_env `STAGE` }}", "dev")):
        task = task.replace(template, value)
    external = {
        **SERVICE_DEFINITION,
        "serviceName": "shop",
        "deploymentController": {"type": "EXTERNAL"},
    }
    return {
        "app.pipecd.yaml": config,
        "servicedef.yaml": json.dumps(external if service is None else service, indent=2),
        "taskdef.json": task,
    }


def import_spec(files: dict[str, str], tool: str = "ecspresso", **more: Any) -> ImportSpec:
    """Return the import of files into a new environment of the demo."""
    fields = {"environment": "imported", "connector": "sandbox_aws", **more}
    return ImportSpec(tool, files, **fields)
