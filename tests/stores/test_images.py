"""Images of registries and of ECR: a tag or the newest of a pattern, pinned to its digest by the run."""

import json
from collections.abc import Callable, Iterator

import boto3
import pytest
from django.test import Client

from connectors.models import Connector
from connectors.operations import create_connector, create_secret
from deployments.artifact_sources import newest, source_problem
from deployments.models import Artifact, Service
from rbac.models import Scope, User
from tests.deployments.driving import Drive
from tests.fixtures.git import PASSWORD
from tests.stores.registry import Registry, registry

pytestmark = pytest.mark.django_db(transaction=True)
MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
WEB = {"type": "DockerRegistry", "connector": "hub", "imagePath": "shop/web"}


@pytest.fixture
def hub() -> Iterator[Registry]:
    with registry(v1_9=ONE, v1_10=TWO, latest=TWO, v1_10_rc=ONE) as made:
        yield made


def connect(hub: Registry, **spec: object) -> Connector:
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    secret = create_secret(actor=admin, scope=scope, identifier="word", name="Word", value=PASSWORD)
    login = {"url": hub.url, "authentication": "UsernamePassword", "username": "me", **spec}
    return create_connector(
        actor=admin,
        scope=scope,
        identifier="hub",
        name="Hub",
        kind="DockerRegistry",
        spec=login,
        secret=secret,
    )


def take_from(source: dict[str, str]) -> None:
    Artifact.objects.filter(service__identifier="myapp").update(source=source)


def test_the_digest_of_the_tag_is_kept_with_the_run(drive: Drive, hub: Registry) -> None:
    connect(hub)
    take_from(WEB)
    execution = drive.run("v1.9")
    assert execution.status == "SUCCESS", execution.failure
    assert (execution.artifact["tag"], execution.artifact["digest"]) == ("v1.9", ONE)
    assert any(line.endswith(f"has the digest {ONE}") for line in drive.log(execution))
    assert [call.operation for call in drive.calls(execution)].count("FindDigest") == 1


def test_the_newest_tag_of_a_pattern_is_taken_where_nobody_chooses(drive: Drive, hub: Registry) -> None:
    connect(hub)
    take_from(WEB | {"tagPattern": "v1.*"})
    hub.tags.pop("v1.10.rc")
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert (execution.artifact["tag"], execution.artifact["digest"]) == ("v1.10", TWO)


@pytest.mark.parametrize(("tag", "source"), [("v3", WEB), ("", WEB | {"tagPattern": "v3.*"})])
def test_a_tag_that_is_not_there_stops_the_run_before_any_write(
    drive: Drive, hub: Registry, tag: str, source: dict[str, str]
) -> None:
    connect(hub)
    take_from(source)
    execution = drive.run(tag)
    assert execution.failure is not None
    assert execution.failure["code"] == "IMAGE_NOT_FOUND"
    assert "v3" in execution.failure["message"]


def test_an_image_of_ecr_has_its_digest_from_there(drive: Drive) -> None:
    client = boto3.client(
        "ecr",
        region_name="us-east-1",
        endpoint_url=Connector.objects.get(identifier="sandbox_aws").spec["endpoint_url"],
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )
    client.create_repository(repositoryName="shop/web")
    manifest = json.dumps(
        {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": {"digest": ONE}, "layers": []}
    )
    put = client.put_image(repositoryName="shop/web", imageManifest=manifest, imageTag="v7")
    take_from(
        {
            "type": "Ecr",
            "connector": "sandbox_aws",
            "imagePath": "shop/web",
            "region": "us-east-1",
            "tagPattern": "v*",
        }
    )
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert execution.artifact["tag"] == "v7"
    assert execution.artifact["digest"] == put["image"]["imageId"]["imageDigest"]


def test_tags_are_listed_searched_and_paged(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    connector = connect(hub)
    client = browse(User.objects.get(username="admin"))
    address = f"/api/v1/connectors/{connector.pk}/registries/tags?image=shop/web"
    listed = client.get(address).json()
    assert listed == {"results": ["v1.10.rc", "v1.10", "v1.9", "latest"], "is_cut": False, "next": None}
    assert client.get(f"{address}&search=rc").json()["results"] == ["v1.10.rc"]
    first = client.get(f"{address}&limit=3").json()
    assert (first["results"], first["next"]) == (["v1.10.rc", "v1.10", "v1.9"], 2)
    second = client.get(f"{address}&limit=3&page=2").json()
    assert (second["results"], second["next"]) == (["latest"], None)
    missing = client.get(f"/api/v1/connectors/{connector.pk}/registries/tags?image=shop/none")
    assert missing.status_code == 409
    assert "404" in missing.json()["detail"]


def test_the_form_of_a_service_keeps_where_its_image_comes_from(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    connect(hub)
    take_from(WEB)
    service = Service.objects.get(identifier="myapp")
    form = browse(User.objects.get(username="admin")).get(f"/services/{service.pk}/edit/").context["form"]
    assert form["source_connector"].value() == "hub"
    assert form["source_path"].value() == "shop/web"


@pytest.mark.parametrize(
    "source",
    [
        {"type": "Magic"},
        {"type": "DockerRegistry", "connector": "hub"},
        WEB | {"imagePath": "shop/web:latest"},
        WEB | {"imagePath": "../etc"},
        WEB | {"region": "us-east-1"},
        WEB | {"tagPattern": "(a+)+$"},
        {"type": "Ecr", "connector": "aws", "imagePath": "web"},
    ],
)
def test_a_source_that_cannot_be_is_named(source: dict[str, str]) -> None:
    assert source_problem(source)


def test_the_highest_matching_tag_is_the_newest() -> None:
    tags = ["1.9", "1.10", "1.10-rc", "2.0", "latest"]
    assert newest(tags, "1.*") == "1.10-rc"
    assert newest(tags, "1.10") == "1.10"
    assert newest(tags, "3.*") == ""
