"""A service behind the sandbox's load balancer, and a pipeline that deploys it blue/green."""

from string import Template
from typing import Any

import pytest
import yaml
from pytest_django import Settings

from catalog.models import Artifact, Manifest, Service
from connectors.models import FileNode
from connectors.operations import save_file
from deployments.journal import rate_limits
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.engine_driver import Drive
from tests.stories.blue_green.shop import Shop

FOLDER = "/Shop"

TASK = """
family: shop
requiresCompatibilities: [FARGATE]
networkMode: awsvpc
cpu: '256'
memory: '512'
executionRoleArn: ${role}
containerDefinitions:
  - name: web
    image: <+primary.artifact.image>
    essential: true
    portMappings: [{containerPort: 80, protocol: tcp}]
"""

SERVICE = """
serviceName: shop
launchType: FARGATE
desiredCount: 2
networkConfiguration:
  awsvpcConfiguration: {subnets: ${subnets}, securityGroups: [${group}], assignPublicIp: ENABLED}
deploymentConfiguration: {maximumPercent: 200, minimumHealthyPercent: 100}
loadBalancers:
  - {targetGroupArn: <+targetGroupArn>, containerName: web, containerPort: 80}
"""


@pytest.fixture(autouse=True)
def _full_buckets() -> None:
    """Each test moves its own clock: what the last one took from AWS's quota is in the future of this one."""
    rate_limits.reset_buckets()


@pytest.fixture
def shop(transactional_db: None, sandbox: SandboxProcess, settings: Settings, account: object) -> Shop:
    """Two listeners, two target groups, nothing deployed yet."""
    settings.SANDBOX_URL = sandbox.url
    seed = sandbox.seed()
    fill_in_demo(SandboxFacts.from_wire(seed))
    project = Scope.objects.get(identifier="demo")
    admin = User.objects.get(username="admin")
    values = {
        "role": seed["execution_role_arn"],
        "subnets": str(seed["subnets"]),
        "group": seed["security_group"],
    }
    for name, text in (("task.yaml", TASK), ("service.yaml", SERVICE)):
        content = Template(text).substitute(values)
        save_file(actor=admin, scope=project, path=f"{FOLDER}/{name}", content=content)
    _service(project)
    drive = Drive(
        sandbox, User.objects.get(username="deployer"), Pipeline.objects.get(identifier="rolling_demo")
    )
    shop = Shop(drive, seed["load_balancer"])
    shop.drive.pipeline = save_pipeline(actor=admin, scope=project, yaml=yaml.safe_dump(shop.document()))
    return shop


def _service(project: Scope) -> None:
    service = Service.objects.create(scope=project, identifier="shop", name="Shop")
    for kind, name in (
        (Manifest.Kind.TASK_DEFINITION, "task"),
        (Manifest.Kind.SERVICE_DEFINITION, "service"),
    ):
        Manifest.objects.create(
            service=service, identifier=name, kind=kind, store="FileStore", paths=[f"{FOLDER}/{name}.yaml"]
        )
    Artifact.objects.create(service=service, image="library/shop", tag="1")


def edit(name: str, old: str, new: str) -> None:
    """Change a manifest as somebody would in the file store."""
    node: Any = FileNode.objects.get(path=f"{FOLDER}/{name}")
    assert old in node.content
    node.content = node.content.replace(old, new)
    node.save()
