"""Pipelines whose steps let a stand-in of Terraform Cloud run Terraform."""

from typing import Any

import pytest

from connectors.models import Connector
from connectors.operations import create_connector, create_secret
from rbac.models import Scope, User
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text, write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.terraform_cloud import TOKEN, TerraformCloudServer

__all__ = ["_full_buckets", "drive", "write"]

BACK = "          - step: {identifier: back, type: TerraformCloudRollback}\n"


def terraform_connector(url: str, token: str = TOKEN, **spec: Any) -> Connector:
    """The connector terraform of the demo's project."""
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    secret = create_secret(actor=admin, scope=scope, identifier="tfc", name="TFC", value=token)
    return create_connector(
        actor=admin,
        scope=scope,
        identifier="terraform",
        name="Terraform Cloud",
        kind="TerraformCloud",
        spec={"url": url, "authentication": "Token", **spec},
        secret=secret,
    )


def run_step(fields: str = "", identifier: str = "provision", run_type: str = "PlanAndApply") -> str:
    """Return a run step; `rest` is YAML in one line."""
    spec = (
        f"{{runType: {run_type}, connectorRef: terraform, organization: acme, workspace: network, {fields}}}"
    )
    return f"- step: {{identifier: {identifier}, type: TerraformCloudRun, spec: {spec}}}\n"


def text_of(*steps: str) -> str:
    """A pipeline with these steps and a rollback of Terraform Cloud."""
    return pipeline_text(stage_text("".join(steps)) + BACK)


@pytest.fixture
def ready(write: Write, drive: Drive, terraform_cloud: TerraformCloudServer) -> Write:
    """Return a function that saves a pipeline with access to the fake's connector."""
    terraform_connector(terraform_cloud.url)

    def save(text: str) -> Drive:
        ready_drive = write(text)
        ready_drive.deployer = User.objects.get(username="admin")
        return ready_drive

    return save
