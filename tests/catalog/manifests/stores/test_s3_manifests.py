"""Deployments whose manifests lie in S3, reached by an AWS connector."""

from collections.abc import Callable

import boto3
import pytest
from django.test import Client

from catalog.models import Environment
from connectors.models import Connector
from deployments.models import StageExecution
from rbac.models import User
from tests.catalog.manifests.stores.conftest import Move, texts
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand

pytestmark = pytest.mark.django_db(transaction=True)
PLACE = {"connector": "sandbox_aws", "region": "us-east-1", "bucket": "manifests"}


@pytest.fixture
def bucket(drive: Drive) -> dict[str, str]:
    """The demo's manifests as objects, each with its version."""
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=Connector.objects.get(identifier="sandbox_aws").spec["endpoint_url"],
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )
    client.create_bucket(Bucket="manifests")
    client.put_bucket_versioning(Bucket="manifests", VersioningConfiguration={"Status": "Enabled"})
    return {
        name: client.put_object(Bucket="manifests", Key=name, Body=text.encode())["VersionId"]
        for name, text in texts().items()
    }


def test_a_service_is_deployed_from_a_bucket(drive: Drive, bucket: dict[str, str], move: Move) -> None:
    move("S3", PLACE)
    execution = drive.run("1.27")
    assert execution.status == "SUCCESS", execution.failure
    log = drive.log(execution)
    for line in (
        "Fetching EcsTaskDefinition from S3",
        "Fetched from the bucket manifests in us-east-1",
        "Fetched all manifests from S3",
    ):
        assert line in log, line
    sources = StageExecution.objects.get(execution=execution).sources
    assert all(source["versions"] == bucket for source in sources)


def test_what_is_not_in_the_bucket_is_named(drive: Drive, bucket: dict[str, str], move: Move) -> None:
    move("S3", PLACE, task="/ecs/tusk.yaml")
    execution = drive.run("1.27")
    assert "there is no object ecs/tusk.yaml in the bucket manifests" in str(execution.failure)


def test_a_delegate_fetches_what_counts_for_the_page_where_the_connector_says_so(
    drive: Drive, bucket: dict[str, str], move: Move, browse: Callable[[User], Client]
) -> None:
    aws = Connector.objects.get(identifier="sandbox_aws")
    aws.spec = {**aws.spec, "connect_through": "Delegate", "delegate_selectors": ["net"]}
    aws.save()
    service = move("S3", PLACE)
    hand_agent = hand("net-1", tags=("net",))
    address = f"/environments/{Environment.objects.get(identifier='dev').pk}/services/{service.pk}/manifests/"
    client = browse(User.objects.get(username="admin"))
    assert "A delegate fetches the files" in client.get(f"{address}?fetch=1").content.decode()
    hand_agent.serve()
    page = client.get(f"{address}?fetch=1").content.decode()
    assert "containerDefinitions" in page
    assert "A delegate fetches" not in page
