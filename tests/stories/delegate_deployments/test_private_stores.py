"""Manifests in S3 and images in ECR that only a delegate reaches: listed, pinned and deployed."""

from dataclasses import replace

import boto3
import httpx
import pytest
from django.conf import settings
from django.test import Client

from catalog.forms.services import build_service_spec
from catalog.models import Service
from catalog.operations import ManifestSpec, update_service
from deployments.models import AwsCall
from rbac.models import User
from tests.catalog.artifacts.ecr import IN_ECR, create_repository
from tests.catalog.manifests.stores.conftest import SERVICE, TASK, texts
from tests.fixtures.agents import Manager
from tests.fixtures.processes import wait_until
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)
PLACE = {"connector": "sandbox_aws", "region": "us-east-1", "bucket": "manifests"}


@pytest.fixture
def service(work: Work) -> Service:
    """The demo's service: manifests in a bucket, image in a repository with three tags."""
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=work.aws.url,
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )
    client.create_bucket(Bucket="manifests")
    for name, text in texts().items():
        client.put_object(Bucket="manifests", Key=name, Body=text.encode())
    push = create_repository(work.aws.url)
    for tag in ("1.9", "1.10", "next"):
        push(tag)
    saved_service = Service.objects.get(identifier="myapp")
    manifests = [
        ManifestSpec("task def", TASK, "S3", ("ecs/task.yaml",), place=PLACE),
        ManifestSpec("service def", SERVICE, "S3", ("ecs/service.yaml",), place=PLACE),
    ]
    spec = replace(
        build_service_spec(saved_service), manifests=manifests, source=IN_ECR | {"tagPattern": "1.*"}
    )
    return update_service(actor=User.objects.get(username="admin"), service=saved_service, spec=spec)


def test_what_lies_in_s3_and_ecr_is_listed_and_deployed_through_an_agent(
    work: Work, start: StartDying, manager: Manager, service: Service
) -> None:
    start("prod-eu")
    session = Client()
    session.force_login(User.objects.get(username="admin"))
    cookies = {settings.SESSION_COOKIE_NAME: session.cookies[settings.SESSION_COOKIE_NAME].value}
    with httpx.Client(base_url=manager.url, cookies=cookies, timeout=30) as page:
        first = page.get(f"/services/{service.pk}/tags/")
        assert (first.status_code, "waits" in first.json()) == (202, True)
        wait_until(lambda: page.get(f"/services/{service.pk}/tags/").status_code == 200, "the tags")
        tag_page = page.get(f"/services/{service.pk}/tags/", params={"search": "1."}).json()
        place = {
            "scope": service.scope.path,
            "type": "Ecr",
            "connector": "sandbox_aws",
            "region": "us-east-1",
        }
        ask = "/services/repositories/"
        wait_until(lambda: page.get(ask, params=place).status_code == 200, "the repositories")
        images = page.get(ask, params=place).json()
    assert sorted(tag["name"] for tag in tag_page["results"]) == ["1.10", "1.9"]
    assert [image["name"] for image in images["results"]] == ["shop/web"]
    after = work.mark()
    execution = work.deploy("")
    work.check_once(execution, after=after)
    assert execution.artifact["tag"] == "1.10"
    calls = AwsCall.objects.filter(
        execution=execution, operation__in=("FetchFiles", "ListTags", "FindDigest")
    )
    assert sorted(call.operation for call in calls) == ["FetchFiles", "FindDigest", "ListTags"]
    assert {server["delegate"].split(" on ")[0] for call in calls for server in call.served_by} == {"prod-eu"}
