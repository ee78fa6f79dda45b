"""ECS services that somebody else has made in the account, and taking them over."""

from typing import Any

from catalog.models import Infrastructure
from deployments.models import Execution
from inventory.models.adoption import Adoption
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord
from inventory.operations.adoptions import AdoptionSpec, adopt_service, read_for_adoption
from rbac.models import User
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import scan_after_sync

STATES = Adoption.State
STEADY_SECONDS = 120


def build_task_definition(drive: Drive, **fields: Any) -> dict[str, Any]:
    """Return a task definition of a foreign service, without fields that are None."""
    seed = drive.sandbox.seed()
    web_container = {
        "name": "web",
        "image": "library/nginx:1.27",
        "essential": True,
        "portMappings": [{"containerPort": 80, "protocol": "tcp"}],
        "environment": [{"name": "LOG", "value": "info"}, {"name": "EMPTY", "value": ""}],
    }
    definition = {
        "family": "legacy",
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "executionRoleArn": seed["execution_role_arn"],
        "containerDefinitions": [web_container],
        **fields,
    }
    return {key: value for key, value in definition.items() if value is not None}


def build_network(drive: Drive) -> dict[str, Any]:
    seed = drive.sandbox.seed()
    return {
        "awsvpcConfiguration": {
            "subnets": list(seed["subnets"]),
            "securityGroups": [seed["security_group"]],
            "assignPublicIp": "ENABLED",
        }
    }


def create_foreign_service(
    drive: Drive, name: str = "legacy", *, task: dict[str, Any] | None = None, **fields: Any
) -> str:
    """Deploy an ECS service by hand, wait until it is steady, and return the ARN of its revision."""
    revision = drive.call("ecs", "RegisterTaskDefinition", build_task_definition(drive, **(task or {})))
    arn: str = revision["taskDefinition"]["taskDefinitionArn"]
    service = {
        "cluster": "demo",
        "serviceName": name,
        "taskDefinition": arn,
        "desiredCount": 2,
        "launchType": "FARGATE",
        "networkConfiguration": build_network(drive),
        **fields,
    }
    drive.call("ecs", "CreateService", {key: value for key, value in service.items() if value is not None})
    wait_until_steady(drive)
    return arn


def wait_until_steady(drive: Drive, seconds: float = STEADY_SECONDS) -> None:
    """Let time go by in AWS until what was begun is over."""
    drive.clock.move(seconds)
    for _ in range(int(seconds // 5)):
        drive.sandbox.advance(5)


def delete_deployment_records() -> None:
    """Delete the records of all deployments, and leave AWS as it is."""
    DriftComparison.objects.all().delete()
    Execution.objects.all().delete()
    EcsServiceRecord.objects.all().delete()


def read_adoption(name: str) -> Adoption:
    """Read an ECS service for adoption, after a scan."""
    admin, infrastructure = User.objects.get(username="admin"), Infrastructure.objects.get()
    adoption = read_for_adoption(actor=admin, infrastructure=infrastructure, ecs_service=name)
    scan_after_sync()
    adoption.refresh_from_db()
    return adoption


def adopt(name: str, identifier: str = "taken", **choices: Any) -> Adoption:
    """Read an ECS service, and adopt it."""
    admin, adoption = User.objects.get(username="admin"), read_adoption(name)
    assert adoption.state == STATES.READY, adoption.reason
    return adopt_service(
        actor=admin, adoption=adoption, spec=AdoptionSpec(identifier, "Taken over", **choices)
    )
