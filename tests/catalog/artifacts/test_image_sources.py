"""Images of registries and of ECR: a tag or the newest of a pattern, pinned to its digest by the run."""

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from aws.errors import Undelivered
from catalog.artifacts.image_sources import describe_source_problem, get_newest_tag
from catalog.models import Artifact, Service
from connectors.models import Connector
from connectors.operations import create_connector, create_secret
from delegates.access import images, site_calls
from delegates.agent.executors import docker_registry
from deployments.engine.steps import inputs
from deployments.models import Execution
from guards.limits import Limit
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.catalog.artifacts.ecr import IN_ECR, Push, create_repository
from tests.catalog.artifacts.registry import Registry, start_registry
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
WEB = {"type": "DockerRegistry", "connector": "hub", "imagePath": "shop/web"}


@pytest.fixture
def hub() -> Iterator[Registry]:
    with start_registry(v1_9=ONE, v1_10=TWO, latest=TWO, v1_10_rc=ONE) as registry_server:
        yield registry_server


def create_registry_connector(hub: Registry, **spec: object) -> Connector:
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


def set_artifact_source(source: dict[str, str]) -> None:
    Artifact.objects.filter(service__identifier="myapp").update(source=source)


def test_the_digest_of_the_tag_is_kept_with_the_run(drive: Drive, hub: Registry) -> None:
    create_registry_connector(hub)
    set_artifact_source(WEB)
    execution = drive.run("v1.9")
    assert execution.status == "SUCCESS", execution.failure
    assert (execution.artifact["tag"], execution.artifact["digest"]) == ("v1.9", ONE)
    assert any(line.endswith(f"has the digest {ONE}") for line in drive.log(execution))
    assert [call.operation for call in drive.calls(execution)].count("FindDigest") == 1


def test_the_newest_tag_of_a_pattern_is_taken_where_nobody_chooses(drive: Drive, hub: Registry) -> None:
    create_registry_connector(hub)
    set_artifact_source(WEB | {"tagPattern": "v1.*"})
    hub.tags.pop("v1.10.rc")
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert (execution.artifact["tag"], execution.artifact["digest"]) == ("v1.10", TWO)


@pytest.mark.parametrize(("tag", "source"), [("v3", WEB), ("", WEB | {"tagPattern": "v3.*"})])
def test_a_tag_that_is_not_there_stops_the_run_before_any_write(
    drive: Drive, hub: Registry, tag: str, source: dict[str, str]
) -> None:
    create_registry_connector(hub)
    set_artifact_source(source)
    execution = drive.run(tag)
    assert execution.failure is not None
    assert execution.failure["code"] == "IMAGE_NOT_FOUND"
    assert "v3" in execution.failure["message"]


@pytest.mark.parametrize(
    ("pattern", "status", "message"),
    [("v*", "FAILED", "more than 2 tags"), ("v1.9", "FAILED", "Choose a tag"), ("v1.1", "SUCCESS", "")],
)
def test_a_pattern_chooses_no_tag_from_a_list_that_may_lack_a_higher_one(
    drive: Drive, hub: Registry, monkeypatch: pytest.MonkeyPatch, pattern: str, status: str, message: str
) -> None:
    create_registry_connector(hub)
    set_artifact_source(WEB | {"tagPattern": pattern})
    hub.tags = {"v1.1": ONE, "v1.2": ONE, "v1.3": ONE, "v1.9": TWO}
    limit = Limit(2, "tags", "", "")
    for module in (images, docker_registry, inputs):
        monkeypatch.setattr(module, "REGISTRY_TAGS", limit)
    execution = drive.run()
    assert execution.status == status, execution.failure
    assert message in (execution.failure or {}).get("message", "")


@pytest.fixture
def ecr(drive: Drive) -> Push:
    """Pushes an image with a tag to a repository of the pretend account; its digest."""
    return create_repository(Connector.objects.get(identifier="sandbox_aws").spec["endpoint_url"])


def test_an_image_of_ecr_has_its_digest_from_there(drive: Drive, ecr: Push) -> None:
    digest = ecr("v7")
    set_artifact_source(IN_ECR | {"tagPattern": "v*"})
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert (execution.artifact["tag"], execution.artifact["digest"]) == ("v7", digest)


def test_tags_are_listed_searched_and_paged(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    connector = create_registry_connector(hub)
    client = browse(User.objects.get(username="admin"))
    address = f"/api/v1/connectors/{connector.pk}/registries/tags?image=shop/web"
    body = client.get(address).json()
    assert body == {"results": ["v1.10.rc", "v1.10", "v1.9", "latest"], "is_cut": False, "next": None}
    assert client.get(f"{address}&search=rc").json()["results"] == ["v1.10.rc"]
    first = client.get(f"{address}&limit=3").json()
    assert (first["results"], first["next"]) == (["v1.10.rc", "v1.10", "v1.9"], 2)
    second = client.get(f"{address}&limit=3&page=2").json()
    assert (second["results"], second["next"]) == (["latest"], None)
    assert hub.list_requests == 1


@pytest.mark.parametrize(
    ("status", "message", "step"),
    [
        (
            403,
            "denied access to shop/web with these credentials (403)",
            "credentials that can read this repository",
        ),
        (404, "has no repository shop/web (404)", "Check the image path"),
        (429, "refused more requests for now (429)", "Wait a few minutes"),
        (503, "has a server error (503)", "Try again"),
    ],
)
def test_a_registry_that_refuses_is_quoted_with_what_to_do_next(
    drive: Drive, hub: Registry, browse: Callable[[User], Client], status: int, message: str, step: str
) -> None:
    connector = create_registry_connector(hub)
    hub.status = status
    client = browse(User.objects.get(username="admin"))
    response = client.get(f"/api/v1/connectors/{connector.pk}/registries/tags?image=shop/web")
    assert response.status_code == 409
    assert message in response.json()["detail"]
    assert step in response.json()["detail"]


def test_the_page_says_why_a_registry_refuses_and_what_a_pattern_would_take(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    create_registry_connector(hub)
    client = browse(User.objects.get(username="admin"))
    query = {"scope": "account/default/demo", **WEB}
    body = client.get("/services/tags/", query | {"pattern": r"/v1\.[0-9]+/"}).json()
    assert [row["name"] for row in body["results"]] == ["v1.10", "v1.9"]
    invalid_pattern = client.get("/services/tags/", query | {"pattern": "/a(?=b)/"})
    assert (invalid_pattern.status_code, "looks around" in invalid_pattern.json()["problem"]) == (400, True)
    missing_connector = client.get("/services/tags/", query | {"connector": "bub"})
    assert (missing_connector.status_code, "does not exist" in missing_connector.json()["problem"]) == (
        409,
        True,
    )
    set_artifact_source(WEB | {"imagePath": "shop/none"})
    service = Service.objects.get(identifier="myapp")
    service_body = client.get(f"/services/{service.pk}/tags/").json()
    assert "has no repository shop/none" in service_body["problem"]
    set_artifact_source(WEB | {"tagPattern": "v1.*"})
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    response = client.post(f"/pipelines/{pipeline.pk}/run/", {"tag": ""})
    assert response.status_code == 302
    assert Execution.objects.get().artifact["tag"] == ""


def test_all_pages_of_ecr_are_listed_the_newest_image_first(
    drive: Drive, ecr: Push, browse: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_calls, "ECR_PAGE", 2)
    for tag in ("v9", "v1", "v5", "v3", "v2"):
        ecr(tag)
    set_artifact_source(IN_ECR | {"tagPattern": "v*"})
    service = Service.objects.get(identifier="myapp")
    body = browse(User.objects.get(username="admin")).get(f"/services/{service.pk}/tags/").json()
    names, push_times = zip(*((row["name"], row["pushed_at"]) for row in body["results"]), strict=True)
    assert sorted(names) == ["v1", "v2", "v3", "v5", "v9"]
    assert all(push_times)
    assert list(push_times) == sorted(push_times, reverse=True)
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert execution.artifact["tag"] == "v9"
    assert [call.operation for call in drive.calls(execution)].count("ListTags") == 3


def test_the_repositories_of_ecr_are_listed_by_page_and_api(
    drive: Drive, ecr: Push, browse: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browse(User.objects.get(username="admin"))
    query = {
        "scope": "account/default/demo",
        "type": "Ecr",
        "connector": "sandbox_aws",
        "region": "us-east-1",
    }
    body = client.get("/services/repositories/", query).json()
    assert [row["name"] for row in body["results"]] == ["shop/web"]
    pk = Connector.objects.get(identifier="sandbox_aws").pk
    repositories = client.get(f"/api/v1/connectors/{pk}/registries/repositories?region=us-east-1").json()
    assert repositories == {"results": ["shop/web"], "is_cut": False, "next": None}
    invalid_region = client.get("/services/repositories/", query | {"region": "evil.example.com"})
    assert (invalid_region.status_code, "region" in invalid_region.json()["problem"]) == (400, True)


def test_the_repositories_of_a_registry_are_listed_where_it_shows_its_catalog(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = create_registry_connector(hub).pk
    hub.repositories = ("shop/web", "shop/worker", "../evil", "base", "Tools")
    client = browse(User.objects.get(username="admin"))
    query = {"scope": "account/default/demo", "type": "DockerRegistry", "connector": "hub"}
    body = client.get("/services/repositories/", query).json()
    assert [row["name"] for row in body["results"]] == ["base", "shop/web", "shop/worker"]
    repositories = client.get(f"/api/v1/connectors/{pk}/registries/repositories?search=shop").json()
    assert repositories == {"results": ["shop/web", "shop/worker"], "is_cut": False, "next": None}


def test_a_registry_that_shows_no_catalog_says_so_and_what_to_do(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = create_registry_connector(hub).pk
    client = browse(User.objects.get(username="admin"))
    query = {"scope": "account/default/demo", "type": "DockerRegistry", "connector": "hub"}
    problem = client.get("/services/repositories/", query).json()["problem"]
    assert "does not list its repositories" in problem
    assert "Enter the image path" in problem
    assert client.get(f"/api/v1/connectors/{pk}/registries/repositories").status_code == 409


def test_a_delegate_lists_the_repositories_where_the_connector_says_so(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = create_registry_connector(hub, connect_through="Delegate", delegate_selectors=["net"]).pk
    hub.repositories = ("shop/web",)
    hand_agent = hand("net-1", tags=("net",))
    client = browse(User.objects.get(username="admin"))
    address = f"/api/v1/connectors/{pk}/registries/repositories"
    assert client.get(address).status_code == 202
    hand_agent.serve()
    assert client.get(address).json()["results"] == ["shop/web"]


def test_a_delegate_that_cannot_reach_the_registry_leaves_it_to_another_one(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = create_registry_connector(hub, connect_through="Delegate", delegate_selectors=["net"]).pk
    hub.repositories = ("shop/web",)
    far, client = hand("far", tags=("net",)), browse(User.objects.get(username="admin"))
    address = f"/api/v1/connectors/{pk}/registries/repositories"
    assert client.get(address).status_code == 202
    near = hand("near", tags=("net",), hostname="ip-10-0-1-8")
    far.refuse("no connection to the registry")
    near.serve()
    assert client.get(address).json()["results"] == ["shop/web"]


def test_an_agent_that_knows_no_catalog_is_told_apart_from_an_empty_registry() -> None:
    class Greeted:
        def call(self, *_: object) -> dict[str, object]:
            return {"ok": True}

    with pytest.raises(Undelivered, match="upgrade it"):
        images.fetch_repositories(Greeted(), "")


def test_a_repository_with_more_tags_than_are_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "REGISTRY_TAGS", 2)
    tag_list = images.fetch_all_tags(
        lambda _: {"imageDetails": [{"imageTags": ["a", "b", "c"]}], "nextToken": "x"}, "web"
    )
    assert (tag_list.names, tag_list.is_cut) == (["c", "b"], True)


def test_the_form_of_a_service_keeps_where_its_image_comes_from(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    create_registry_connector(hub)
    set_artifact_source(WEB)
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
        WEB | {"tagPattern": "/a(?=b)/"},
        WEB | {"tagPattern": "/[/"},
        {"type": "Ecr", "connector": "aws", "imagePath": "web"},
        {"type": "Ecr", "connector": "aws", "imagePath": "web", "region": "nowhere-1"},
    ],
)
def test_a_source_that_cannot_be_is_named(source: dict[str, str]) -> None:
    assert describe_source_problem(source)


def test_the_highest_matching_tag_is_the_newest() -> None:
    tags = ["1.9", "1.10", "1.10-rc", "2.0", "latest"]
    assert get_newest_tag(tags, "1.*") == "1.10-rc"
    assert get_newest_tag(tags, "1.10") == "1.10"
    assert get_newest_tag(tags, "3.*") == ""
    assert get_newest_tag(tags, r"/1\.[0-9]+/") == "1.10"
