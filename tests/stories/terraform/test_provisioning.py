"""A stage whose cluster a configuration in Git makes: deployed into, previewed, and gone back from."""

import json

import pytest

from deployments.models import AwsCall, StepExecution
from tests.catalog.manifests.stores.conftest import create_git_connector
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.git import GitServer, git_server
from tests.fixtures.script_gates import create_cluster
from tests.steps.kinds.conftest import Worker
from tests.stories.provisioning.conftest import Place, place, staged
from tests.stories.provisioning.test_provisioning import serve
from tests.stories.terraform.conftest import States, needs_terraform

__all__ = ["git_server", "place"]
pytestmark = [needs_terraform, pytest.mark.django_db(transaction=True)]

MODULE = """\
variable "name" {}
variable "command" {}
resource "terraform_data" "cluster" {
  input = var.name
  provisioner "local-exec" {
    command = var.command
  }
}
output "name" {
  value = terraform_data.cluster.output
}
"""
ROOT = """\
terraform {
  backend "http" {}
}
variable "name" {}
variable "command" {}
module "cluster" {
  source  = "../modules/cluster"
  name    = var.name
  command = var.command
}
output "cluster_name" {
  value = module.cluster.name
}
output "region_name" {
  value = "us-east-1"
}
"""


def _step(states: States, drive: Drive) -> str:
    """Makes the cluster in the sandbox by a program that the configuration runs."""
    command = create_cluster(drive.sandbox.url, "orders")
    backend = "".join(f"\n        {line}" for line in states.backend().splitlines())
    return f"""
- step:
    identifier: net
    type: TerraformApply
    delegateSelectors: [scripts]
    spec:
      provisionerIdentifier: network_<+env.identifier>
      configFiles: {{type: Git, spec: {{connector: shop, branch: main, files: [infra]}}}}
      folderPath: infra/live
      variables:
        - {{name: name, value: orders}}
        - {{name: command, value: {json.dumps(command)}}}
      backendConfig: |{backend}
"""


@pytest.fixture
def ready(write: Write, drive: Drive, place: Place, states: States, git_server: GitServer) -> Drive:
    git_server.commit({"infra/live/main.tf": ROOT, "infra/modules/cluster/main.tf": MODULE, "README": "x"})
    create_git_connector(git_server.url)
    place()
    return write(pipeline_text(staged(_step(states, drive), DEPLOY)))


def test_a_stage_deploys_into_the_cluster_that_its_configuration_has_made(
    ready: Drive, drive: Drive, worker: Worker, states: States
) -> None:
    execution = serve(drive, ready.start("1.27"), worker)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    log = drive.log(execution)
    assert any(line.startswith("Using commit ") for line in log)
    assert "Deploying to the provisioned cluster orders in us-east-1" in log
    query = {"cluster": "orders", "services": ["myapp"]}
    (service,) = drive.call("ecs", "DescribeServices", query)["services"]
    assert service["runningCount"] == service["desiredCount"] > 0
    call = AwsCall.objects.get(operation="RunTerraform")
    assert set(call.preview["files"].values()) == {"•••"}
    # Whatever is pushed later, a retry of the step takes what this run has fetched.
    step = StepExecution.objects.get(identifier="net")
    assert len(step.spec["configFiles"]["frozen"]["texts"]) == 2
