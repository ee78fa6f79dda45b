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
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.catalog.artifacts.ecr import IN_ECR, Push, pushing
from tests.catalog.artifacts.registry import Registry, registry
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)
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


@pytest.fixture
def ecr(drive: Drive) -> Push:
    """Pushes an image with a tag to a repository of the pretend account; its digest."""
    return pushing(Connector.objects.get(identifier="sandbox_aws").spec["endpoint_url"])


def test_an_image_of_ecr_has_its_digest_from_there(drive: Drive, ecr: Push) -> None:
    digest = ecr("v7")
    take_from(IN_ECR | {"tagPattern": "v*"})
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert (execution.artifact["tag"], execution.artifact["digest"]) == ("v7", digest)


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
    assert hub.asked == 1


@pytest.mark.parametrize(
    ("status", "said", "step"),
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
    drive: Drive, hub: Registry, browse: Callable[[User], Client], status: int, said: str, step: str
) -> None:
    connector = connect(hub)
    hub.status = status
    client = browse(User.objects.get(username="admin"))
    refused = client.get(f"/api/v1/connectors/{connector.pk}/registries/tags?image=shop/web")
    assert refused.status_code == 409
    assert said in refused.json()["detail"]
    assert step in refused.json()["detail"]


def test_the_page_says_why_a_registry_refuses_and_what_a_pattern_would_take(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    connect(hub)
    client = browse(User.objects.get(username="admin"))
    here = {"scope": "account/default/demo", **WEB}
    listed = client.get("/services/tags/", here | {"pattern": r"/v1\.[0-9]+/"}).json()
    assert [one["name"] for one in listed["results"]] == ["v1.10", "v1.9"]
    bad = client.get("/services/tags/", here | {"pattern": "/a(?=b)/"})
    assert (bad.status_code, "looks around" in bad.json()["problem"]) == (400, True)
    missing = client.get("/services/tags/", here | {"connector": "bub"})
    assert (missing.status_code, "does not exist" in missing.json()["problem"]) == (409, True)
    take_from(WEB | {"imagePath": "shop/none"})
    service = Service.objects.get(identifier="myapp")
    refused = client.get(f"/services/{service.pk}/tags/").json()
    assert "has no repository shop/none" in refused["problem"]
    take_from(WEB | {"tagPattern": "v1.*"})
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    asked = client.post(f"/pipelines/{pipeline.pk}/run/", {"tag": ""})
    assert asked.status_code == 302
    assert Execution.objects.get().artifact["tag"] == ""


def test_all_pages_of_ecr_are_listed_the_newest_image_first(
    drive: Drive, ecr: Push, browse: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_calls, "ECR_PAGE", 2)
    for tag in ("v9", "v1", "v5", "v3", "v2"):
        ecr(tag)
    take_from(IN_ECR | {"tagPattern": "v*"})
    service = Service.objects.get(identifier="myapp")
    listed = browse(User.objects.get(username="admin")).get(f"/services/{service.pk}/tags/").json()
    names, pushed = zip(*((one["name"], one["pushed_at"]) for one in listed["results"]), strict=True)
    assert sorted(names) == ["v1", "v2", "v3", "v5", "v9"]
    assert all(pushed)
    assert list(pushed) == sorted(pushed, reverse=True)
    execution = drive.run()
    assert execution.status == "SUCCESS", execution.failure
    assert execution.artifact["tag"] == "v9"
    assert [call.operation for call in drive.calls(execution)].count("ListTags") == 3


def test_the_repositories_of_ecr_are_listed_by_page_and_api(
    drive: Drive, ecr: Push, browse: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browse(User.objects.get(username="admin"))
    here = {"scope": "account/default/demo", "type": "Ecr", "connector": "sandbox_aws", "region": "us-east-1"}
    listed = client.get("/services/repositories/", here).json()
    assert [one["name"] for one in listed["results"]] == ["shop/web"]
    pk = Connector.objects.get(identifier="sandbox_aws").pk
    told = client.get(f"/api/v1/connectors/{pk}/registries/repositories?region=us-east-1").json()
    assert told == {"results": ["shop/web"], "is_cut": False, "next": None}
    elsewhere = client.get("/services/repositories/", here | {"region": "evil.example.com"})
    assert (elsewhere.status_code, "region" in elsewhere.json()["problem"]) == (400, True)


def test_the_repositories_of_a_registry_are_listed_where_it_shows_its_catalog(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = connect(hub).pk
    hub.repositories = ("shop/web", "shop/worker", "../evil", "base", "Tools")
    client = browse(User.objects.get(username="admin"))
    here = {"scope": "account/default/demo", "type": "DockerRegistry", "connector": "hub"}
    listed = client.get("/services/repositories/", here).json()
    assert [one["name"] for one in listed["results"]] == ["base", "shop/web", "shop/worker"]
    told = client.get(f"/api/v1/connectors/{pk}/registries/repositories?search=shop").json()
    assert told == {"results": ["shop/web", "shop/worker"], "is_cut": False, "next": None}


def test_a_registry_that_shows_no_catalog_says_so_and_what_to_do(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = connect(hub).pk
    client = browse(User.objects.get(username="admin"))
    here = {"scope": "account/default/demo", "type": "DockerRegistry", "connector": "hub"}
    said = client.get("/services/repositories/", here).json()["problem"]
    assert "does not list its repositories" in said
    assert "Enter the image path" in said
    assert client.get(f"/api/v1/connectors/{pk}/registries/repositories").status_code == 409


def test_a_delegate_lists_the_repositories_where_the_connector_says_so(
    drive: Drive, hub: Registry, browse: Callable[[User], Client]
) -> None:
    pk = connect(hub, connect_through="Delegate", delegate_selectors=["net"]).pk
    hub.repositories = ("shop/web",)
    one = hand("net-1", tags=("net",))
    client = browse(User.objects.get(username="admin"))
    address = f"/api/v1/connectors/{pk}/registries/repositories"
    assert client.get(address).status_code == 202
    one.serve()
    assert client.get(address).json()["results"] == ["shop/web"]


def test_an_agent_that_knows_no_catalog_is_told_apart_from_an_empty_registry() -> None:
    class Greeted:
        def call(self, *_: object) -> dict[str, object]:
            return {"ok": True}

    with pytest.raises(Undelivered, match="upgrade it"):
        images.fetch_repositories(Greeted(), "")


def test_a_repository_with_more_tags_than_are_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "REGISTRY_TAGS", 2)
    found = images.fetch_all_tags(
        lambda _: {"imageDetails": [{"imageTags": ["a", "b", "c"]}], "nextToken": "x"}, "web"
    )
    assert (found.names, found.is_cut) == (["c", "b"], True)


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
