"""A stage whose infrastructure Terraform Cloud makes: it deploys to what the outputs say."""

import pytest

from deployments.models import StageExecution
from rbac.models import User
from tests.deployments.engine.conftest import Write, pipeline_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.terraform_cloud import Output, TerraformCloudServer
from tests.stories.provisioning.conftest import Place, place, staged
from tests.stories.terraform_cloud.conftest import run_step

__all__ = ["place"]

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_stage_deploys_into_the_cluster_that_terraform_cloud_has_made(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer, place: Place
) -> None:
    place()
    drive.call("ecs", "CreateCluster", {"clusterName": "orders"})
    terraform_cloud.outputs = [Output("region_name", "us-east-1"), Output("cluster_name", "orders")]
    prepared = ready(pipeline_text(staged(run_step())))
    prepared.deployer = User.objects.get(username="admin")
    execution = prepared.run("1.27")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    stage = StageExecution.objects.get(execution=execution)
    assert (stage.region, stage.cluster) == ("us-east-1", "orders")
    assert "Deploying to the provisioned cluster orders in us-east-1" in drive.log(execution)
